"""Synchronous methods made from asynchronous ones, with their types, signatures and docstrings.

A method of a facade is one line in its class, such as ``publish = blocking(AsyncClient.publish)``.  A change of the
asynchronous method changes the synchronous one, for type checkers as well.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar

from p2prdf.sync.background import Background

__all__ = ["Facade", "Items", "at_once", "blocking", "converted", "direct", "entered", "iterated", "made"]

_A = TypeVar("_A")
_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S")


class Facade(Generic[_A]):
    """A synchronous object in front of an asynchronous one, which runs in the thread of the client."""

    def __init__(self, background: Background, behind: _A):
        self._background = background
        self._behind = behind


def blocking(method: Callable[Concatenate[_A, _P], Awaitable[_R]]) -> Callable[Concatenate[Facade[_A], _P], _R]:
    """Return a method that waits for the result of an asynchronous one."""

    @functools.wraps(method)
    def call(self: Facade[_A], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._background.run(lambda: method(self._behind, *args, **kwargs))

    return call


def converted(
    method: Callable[Concatenate[_A, _P], Awaitable[_R]], wrap: Callable[[Background, _R], _S]
) -> Callable[Concatenate[Facade[_A], _P], _S]:
    """Return a method that waits for an asynchronous object; ``wrap`` makes the facade in front of it."""

    @functools.wraps(method)
    def call(self: Facade[_A], /, *args: _P.args, **kwargs: _P.kwargs) -> _S:
        return wrap(self._background, self._background.run(lambda: method(self._behind, *args, **kwargs)))

    return call


def at_once(method: Callable[Concatenate[_A, _P], _R]) -> Callable[Concatenate[Facade[_A], _P], _R]:
    """Return a method that calls a plain one in the client's thread."""

    @functools.wraps(method)
    def call(self: Facade[_A], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._background.read(lambda: method(self._behind, *args, **kwargs))

    return call


def direct(method: Callable[Concatenate[_A, _P], _R]) -> Callable[Concatenate[Facade[_A], _P], _R]:
    """Return a method that calls a plain one in the calling thread: it uses no loop and may read a slow source."""

    @functools.wraps(method)
    def call(self: Facade[_A], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return method(self._behind, *args, **kwargs)

    return call


def made(
    method: Callable[Concatenate[_A, _P], _R], wrap: Callable[[Background, _R], _S]
) -> Callable[Concatenate[Facade[_A], _P], _S]:
    """Return a method that makes an asynchronous object in the client's thread, and ``wrap`` the facade before it."""

    @functools.wraps(method)
    def call(self: Facade[_A], /, *args: _P.args, **kwargs: _P.kwargs) -> _S:
        return wrap(self._background, self._background.read(lambda: method(self._behind, *args, **kwargs)))

    return call


class Items(Generic[_R]):
    """A blocking iterator.  ``close()``, or the end of a ``with`` block, ends it at once.

    An interrupt (Ctrl-C) ends it, too.
    """

    def __init__(self, background: Background, begin: Callable[[], AsyncIterator[_R]]):
        self._background = background
        self._begin = begin
        self._items: AsyncIterator[_R] | None = None
        self._closed = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _R:
        if self._closed:
            raise StopIteration
        try:
            return self._background.run(self._next)
        except StopAsyncIteration:
            raise StopIteration from None

    async def _next(self) -> _R:
        if self._items is None:
            self._items = self._begin()
        return await anext(self._items)

    def close(self) -> None:
        """End the iteration, and release the resources behind it."""
        self._closed = True
        self._background.run(self._aclose)

    async def _aclose(self) -> None:
        if self._items is not None and (close := getattr(self._items, "aclose", None)) is not None:
            await close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def iterated(
    method: Callable[Concatenate[_A, _P], AsyncIterator[_R]]
) -> Callable[Concatenate[Facade[_A], _P], Items[_R]]:
    """Return a method that iterates over the items of an asynchronous iterator."""

    @functools.wraps(method)
    def call(self: Facade[_A], /, *args: _P.args, **kwargs: _P.kwargs) -> Items[_R]:
        return Items(self._background, lambda: method(self._behind, *args, **kwargs))

    return call


def entered(
    method: Callable[Concatenate[_A, _P], AbstractAsyncContextManager[_R]], wrap: Callable[[Background, _R], _S]
) -> Callable[Concatenate[Facade[_A], _P], AbstractContextManager[_S]]:
    """Return a method that returns a context manager in front of an asynchronous one."""

    @functools.wraps(method)
    def call(self: Facade[_A], /, *args: _P.args, **kwargs: _P.kwargs) -> AbstractContextManager[_S]:
        return _inside(self._background, lambda: method(self._behind, *args, **kwargs), wrap)

    return call


@contextlib.contextmanager
def _inside(
    background: Background, begin: Callable[[], AbstractAsyncContextManager[_R]], wrap: Callable[[Background, _R], _S]
) -> Iterator[_S]:
    manager = background.read(begin)
    behind = background.run(manager.__aenter__)
    try:
        yield wrap(background, behind)
    except BaseException as error:
        raised = error
        if not background.run(lambda: manager.__aexit__(type(raised), raised, raised.__traceback__)):
            raise
    else:
        background.run(lambda: manager.__aexit__(None, None, None))

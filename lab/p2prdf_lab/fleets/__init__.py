"""Overlays of tens of thousands of peers in columns, to measure loads and hops.

``fleet`` routes and joins, ``tables`` holds its tables, ``places`` the peers' positions, ``finger_hops``
counts the hops of lookups, and ``skew`` measures the load of peers under skewed data.
"""

"""The manifests of ``k8s/`` in a real cluster: ``make cluster-check KUBECONFIG=FILE``.

``plan``: the steps and their order.  ``kubectl``: the only way to the cluster.  ``tree``: a copy of the manifests with
the image under test.  ``objects``: the client pod and other objects of the check.  ``load``, ``over_http``: clients
that run in that pod.  ``counts``: judges the ledger of a load.  ``steps``: one function per step.  ``report``: Markdown
for docs/how-to/run-on-kubernetes.md.
"""

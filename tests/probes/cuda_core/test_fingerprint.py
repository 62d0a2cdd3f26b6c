"""Fingerprints of graphs and differences in words: pure functions."""

from __future__ import annotations

import pytest
from counting import lines_run
from hypothesis import given
from hypothesis import strategies as st

from kernelscope.probes.cuda_core.read import Node, Shape, Snapshot, compare, described

LAYOUT = ((0, 8), (8, 8))


def kernel(name="axpy", grid=1, arguments=b"\0" * 16, block=32, shared=0, cluster=None, cooperative=False, **more):
    return Node("kernel", f"m::{name}(float)", f"_Z{name}",
                Shape((grid, 1, 1), (block, 1, 1), shared, cluster, cooperative), None, arguments, LAYOUT, **more)


def chain(*nodes):
    return Snapshot(nodes, tuple((place, place + 1) for place in range(len(nodes) - 1)))


def test_equal_graphs_have_equal_hashes():
    first, second = chain(kernel(), Node("memset", "memset", size=4)), chain(kernel(), Node("memset", "memset", size=4))
    assert (first.topology, first.fingerprint, first.state) == (second.topology, second.fingerprint, second.state)
    assert compare(first, second) == ("none", None)
    assert len({first.topology, first.fingerprint, first.state}) == 3


@pytest.mark.parametrize(("after", "change", "words"), [
    (chain(kernel(grid=8)), "configuration", "grid of axpy 1 to 8"),
    (chain(kernel(block=64, shared=128)), "configuration",
     "block of axpy 32 to 64; shared memory of axpy 0 to 128 bytes"),
    (chain(kernel(cluster=(2, 1, 1))), "configuration", "cluster of axpy none to 2"),
    (chain(kernel(cooperative=True)), "configuration", "axpy is cooperative now"),
    (chain(kernel(enabled=False)), "configuration", "axpy disabled"),
    (chain(kernel(arguments=b"\0" * 8 + b"\1" * 8)), "arguments", "argument 2 of axpy"),
    (chain(kernel("scale")), "topology", "node scale added; node axpy removed"),
    (chain(kernel(), kernel(), kernel()), "topology", "2 nodes axpy added"),
])
def test_differences(after, change, words):
    assert compare(chain(kernel()), after) == (change, words)
    before, same = chain(kernel()), change in ("arguments", "configuration")
    assert (before.topology == after.topology) is same
    assert (before.fingerprint == after.fingerprint) is (change == "arguments")
    assert before.state != after.state


def test_edges_are_topology():
    nodes = kernel(), kernel(), kernel()
    before, after = chain(*nodes), Snapshot(nodes, ((0, 1), (0, 2)))
    assert compare(before, after) == ("topology", "1 edge added; 1 edge removed")
    assert compare(chain(kernel(), kernel("b")), chain(kernel("b"), kernel())).changes == "other order of the nodes"


def test_copies_and_sizes():
    before = chain(Node("memcpy", "HtoD", size=4, arguments=b"\0" * 16, layout=LAYOUT))
    assert compare(before, chain(Node("memcpy", "DtoH", size=4, arguments=b"\0" * 16, layout=LAYOUT))) == (
        "configuration", "memcpy HtoD to DtoH")
    assert compare(before, chain(Node("memcpy", "HtoD", size=8, arguments=b"\0" * 16, layout=LAYOUT))) == (
        "configuration", "size of memcpy HtoD 4 to 8 bytes")
    assert compare(before, chain(Node("memcpy", "HtoD", size=4, arguments=b"\0" * 15 + b"\1", layout=LAYOUT))) == (
        "arguments", "destination of memcpy HtoD")


def test_equal_words_are_counted_and_long_lists_cut():
    before, after = chain(*[kernel()] * 20), chain(*[kernel(grid=4)] * 20)
    assert compare(before, after).changes == "grid of axpy 1 to 4 (20 nodes)"
    before = chain(*[kernel(f"k{number}") for number in range(20)])
    after = chain(*[kernel(f"k{number}", grid=4) for number in range(20)])
    assert compare(before, after).changes.endswith("grid of k7 1 to 4; and 12 more")


def test_bodies_count():
    inside, other = chain(kernel()), chain(kernel(grid=4))
    before, after = chain(Node("if", bodies=(inside,))), chain(Node("if", bodies=(other,)))
    assert compare(before, after) == ("configuration", "grid of axpy 1 to 4")
    assert compare(before, chain(Node("while", bodies=(inside,)))).change == "topology"
    assert chain(Node("if", bodies=(inside, inside)), kernel()).count() == (4, 1)


def test_names_of_arguments_count_only_where_they_fit():
    before, after = chain(kernel()), chain(kernel(arguments=b"\1" * 16))
    assert compare(before, after, {"_Zaxpy": ("x", "x")}).changes == "argument x of axpy"
    assert compare(before, after, {"_Zaxpy": ("x", "y")}).changes == "argument x of axpy; argument y of axpy"
    assert compare(before, after, {"_Zaxpy": ("x",)}).changes == "argument 1 of axpy; argument 2 of axpy"


def test_descriptions():
    assert described(kernel()) == "axpy"
    assert described(Node("kernel")) == "a kernel"
    assert described(Node("memset", "memset")) == "memset"
    assert described(Node("host")) == "host"


graphs = st.lists(st.builds(kernel, st.sampled_from(["a", "b"]), st.integers(1, 3),
                            st.sampled_from([b"\0" * 16, b"\1" * 16])), max_size=5).map(lambda each: chain(*each))


@given(graphs, graphs)
def test_changes_and_hashes_agree(before, after):
    change, words = compare(before, after)
    assert (change == "none") == (before.state == after.state)
    assert (change in ("none", "arguments")) == (before.fingerprint == after.fingerprint)
    assert (change != "topology") == (before.topology == after.topology)
    assert (words is None) == (change == "none")


def test_the_work_grows_with_the_nodes_and_no_faster():
    def work(nodes):
        before, after = (chain(*[kernel(f"k{place % 7}", grid, bytes([place % 256] * 16)) for place in range(nodes)])
                         for grid in (1, 2))

        def hash_and_compare():
            assert before.fingerprint != after.fingerprint
            assert before.state and compare(before, after).change == "configuration"

        return lines_run(hash_and_compare)

    assert work(1000) < 2.2 * work(500)

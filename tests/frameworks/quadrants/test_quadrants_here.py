import quadrants as qd

import kernelscope


def test_it_is_there():
    qd.init(arch=qd.cpu)
    assert kernelscope.__version__

"""What the tests of guards share: guards on the arguments of a call, checked and explained."""

from braze._C import _guards

OK = -1


class Case:
    """Guards on argument 0, called `x`, and on whatever `build` adds."""

    def __init__(self, build, *names):
        self.set = _guards.GuardSet()
        arguments = [self.set.argument(i, name) for i, name in enumerate(names or ("x",))]
        build(self.set, *arguments)
        self.program = self.set.program()

    def holds(self, *args, **kwargs):
        return self.program.check(*args, **kwargs) == OK

    def why(self, *args, **kwargs):
        """The explanation of the guard that fails; the guards must not hold."""
        failed = self.program.check(*args, **kwargs)
        assert failed != OK, "the guards hold"
        return self.program.explain(failed, *args, **kwargs)


def on_argument(kind, *values, **options):
    """A Case with one guard of this kind on argument x."""

    def build(guards, x):
        assert getattr(guards, kind)(x, *values, **options) is not False, "refused"

    return Case(build)

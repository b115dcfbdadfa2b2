"""Rows of test_language.py: what others see of the variables of frames that are captured in part."""

from language import row

ROWS = {
    "locals of the caller": ("def peek(): return sorted(sys._getframe(1).f_locals)", "names = peek()", "names"),
    "values of the caller": (
        "def peek(): return [v for v in sys._getframe(1).f_locals.values() if not torch.is_tensor(v)]",
        "seen = peek()",
        "seen",
    ),
    "tensors of the caller": (
        "def peek(): return [v.sum().item() for v in sys._getframe(1).f_locals.values() if torch.is_tensor(v)]",
        "seen = peek()",
        "seen",
    ),
    "through f_back": ("def peek(): return sorted(sys._getframe().f_back.f_locals)", "names = peek()", "names"),
    "own locals": ("", "names = sorted(locals())", "names"),
    "vars": ("", "names = sorted(vars())", "names"),
    "dir": ("", "names = sorted(dir())", "names"),
    "eval": ("", "seen = eval('(a, b)')", "seen"),
    "printed": ("", "print(a)", "0"),
}

for name, (helper, look, result) in ROWS.items():
    for dead in ("a = 5; b = a + 1", "a, b = [1, 2], (3, 4)", "a = 'text'; b = None", "a = x; b = y * 3"):
        row(
            f"{name}: {dead}",
            f"import sys\n{helper}\ndef f(x):\n    y = x * 2\n    {dead}\n    {look}\n    return y + 1, {result}\n",
            # What looks computes with what it finds. The frame's own variables are known.
            breaks=2 if "item()" in helper else 0 if name in ("own locals", "vars") else 1,
        )

for dead in ("a = 5; b = a + 1", "a, b = [1, 2], (3, 4)", "a = x; b = y * 3"):
    row(
        f"traceback's variables, raised: {dead}",
        f"""
        def g(x):
            y = x * 2
            {dead}
            raise ValueError("no")
        def f(x):
            y = x + 1
            try: g(y)
            except ValueError as error:
                frame = error.__traceback__.tb_next.tb_frame
                return y, sorted(frame.f_locals), frame.f_locals["x"] is y
        """,
        breaks=2,
    )

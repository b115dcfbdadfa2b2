"""Rows of test_language.py: exceptions, try, with, context managers."""

from language import row

row(
    "try except",
    """
    def f(x):
      y = x + 1
      try: {}['k']
      except KeyError as e: y = y * len(e.args)
      else: y = y - 1
      finally: y = y + 2
      return y
    """,
)
row(
    "try nested",
    """
    def g(k):
      try:
        if k: raise ValueError('v')
        return 1
      except TypeError: return 2
      finally: k = 5
    def f(x):
      try: g(1)
      except (ValueError, KeyError) as e: return x * 2, str(e), type(e).__name__

    """,
)
row(
    "raise from",
    """
    def f(x):
      y = x + 1
      try: raise KeyError('a')
      except KeyError as e: raise ValueError('b') from e
    """,
    breaks=1,
)
row(
    "raise in handler",
    """
    def f(x):
      y = x + 1
      try: 1 / 0
      except ZeroDivisionError: raise RuntimeError('c')
    """,
    breaks=1,
)
row(
    "raise from None",
    """
    def f(x):
      y = x + 1
      try: [][1]
      except IndexError: raise RuntimeError('c') from None
    """,
    breaks=1,
)
row(
    "reraise",
    """
    def g(): raise ValueError('z')
    def f(x):
      y = x + 1
      try: g()
      except ValueError:
        y = y * 2
        raise
    """,
    breaks=2,
    replays=False,
)
row(
    "caught from tensors",
    """
    def f(x):
      try: return x + torch.ones(7)
      except RuntimeError: return x * 2
    """,
    breaks=1,
    replays=False,
)
row(
    "custom exception",
    """
    class E(Exception):
      def __init__(self, a, b): super().__init__(a); self.b = b
    def g(): raise E('m', 4)
    def f(x):
      try: g()
      except E as e: return x * e.b, e.args, str(e)
    """,
)
row(
    "exception group",
    """
    def f(x):
      y = x + 1
      try: raise ExceptionGroup('g', [ValueError(1), TypeError(2)])
      except* ValueError as e: y = y * 2
      except* TypeError as e: y = y * 3
      return y
    """,
    breaks=3,
)
row(
    "assert",
    """
    def f(x, k=3):
      assert k == 3, 'no'
      y = x * k
      assert k == 4, f'{k} is bad'
      return y
    """,
    breaks=1,
)
row(
    "stop iteration",
    """
    def f(x):
      it = iter([1])
      y = x * next(it)
      try: next(it)
      except StopIteration: y = y + 1
      return y * next(it, 5)
    """,
)
row(
    "attribute error caught",
    """
    class C: pass
    c = C()
    def f(x):
      try: return x * c.k
      except AttributeError: return x * 2
    """,
)
row(
    "exception attributes",
    """
    def f(x):
      try: raise ValueError('a', 1)
      except ValueError as e:
        a = e.args
        c = e.__cause__
        t = e.__traceback__ is not None
      return x + 1, a, c, t
    """,
)
row(
    "with",
    """
    class M:
      def __init__(self): self.log = []
      def __enter__(self): self.log.append(1); return 3
      def __exit__(self, *a): self.log.append(a[0]); return True
    def f(x):
      m = M()
      with m as k: y = x * k; raise ValueError
      return y, m.log
    """,
)
row(
    "contextmanager",
    """
    import contextlib
    @contextlib.contextmanager
    def c(k):
      yield k + 1
    def f(x):
      with c(2) as k: return x * k
    """,
)
row(
    "contextmanager finally",
    """
    import contextlib
    @contextlib.contextmanager
    def c(k):
      try: yield k + 1
      finally: pass
    def f(x):
      with c(2) as k: y = x * k
      return y + 1
    """,
)
row(
    "nullcontext",
    """
    import contextlib
    def f(x):
      with contextlib.nullcontext(3) as k: y = x * k
      return y + 1
    """,
)
row(
    "suppress",
    """
    import contextlib
    def f(x):
      with contextlib.suppress(KeyError): {}['a']
      return x + 1
    """,
)
row(
    "ExitStack",
    """
    import contextlib
    class M:
      def __enter__(self): return 2
      def __exit__(self, *a): return None
    def f(x):
      with contextlib.ExitStack() as s: y = x * s.enter_context(M()); s.callback(lambda: None)
      return y + 1
    """,
)
row(
    "closing",
    """
    import contextlib
    class M:
      n = 0
      def close(self): pass
    def f(x):
      with contextlib.closing(M()) as m: return x * 2
    """,
)
row(
    "redirect_stdout",
    """
    import contextlib, io
    def f(x):
      s = io.StringIO()
      with contextlib.redirect_stdout(s): y = x * 2; print('a')
      return y + 1, s.getvalue()
    """,
    breaks=2,
    replays=False,
)
row(
    "with torch modes",
    """
    def f(x):
      with torch.no_grad():
        y = x * 2
      with torch.enable_grad(): pass
      return y + 1, torch.is_grad_enabled()
    """,
)

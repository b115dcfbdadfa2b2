"""What is compared here is said where it differs."""

import pytest

pytest.register_assert_rewrite("on_gpu")

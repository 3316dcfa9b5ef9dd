# Where pytest's --jaxtyping-packages looks for it.
from tests.signatures import check as check

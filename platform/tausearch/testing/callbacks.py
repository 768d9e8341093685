"""The contract of callbacks; its events are made where callbacks are told them."""

from tausearch.tracking import check_callback as check_callback

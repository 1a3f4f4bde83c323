# SPDX-License-Identifier: MIT
"""@final: a class that cannot be subclassed, as types of the extension cannot. The module typing takes too long to import."""
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import final as final
else:
    def final(cls):
        def refuse(subclass):
            raise TypeError(f"type 'sluice.{cls.__name__}' is not an acceptable base type")

        cls.__init_subclass__ = classmethod(refuse)
        return cls

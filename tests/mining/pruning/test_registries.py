"""Registries of which a reference looks up a few classes become tables of these."""

import pytest

from tests.mining.pruning.test_pruning import model, pruned

REGISTRY = """
class Registry:
    def __init__(self, name):
        self._name = name
        self._table = {}

    def get(self, key):
        return self._table.get(key)

    @property
    def table(self):
        return self._table

    def _register(self, kind, name):
        self._table[name or kind.__name__] = kind

    def register(self, name=None, module=None):
        if module is not None:
            self._register(module, name)
            return module
        return lambda kind: self.register(name, kind)

LAYERS = Registry("layer")
for kind in [nn.ReLU, nn.Tanh, nn.GELU]:
    LAYERS.register(module=kind)
LAYERS.register("soft", module=nn.Softplus)

@LAYERS.register("twice")
class Twice(nn.Module):
    def forward(self, x):
        return x * 2

@LAYERS.register()
class Thrice(nn.Module):
    def forward(self, x):
        return x * 3

def build(cfg, registry):
    cfg = dict(cfg)
    return {found}(**cfg)

"""
LOOKED_UP = ["registry.get(cfg.pop('type'))", "registry.table[cfg.pop('type')]"]


@pytest.mark.parametrize("found", LOOKED_UP)
def test_a_table_of_what_is_looked_up_takes_the_place_of_a_registry(found):
    made = "self.a, self.b, self.c = [build({'type': kind}, LAYERS) for kind in kinds]"
    top = REGISTRY.replace("{found}", found)
    text = pruned(model("return self.c(self.b(self.a(x)))", made, "self, kinds", top), "('Tanh', 'twice', 'soft')")
    assert "LAYERS = {'Tanh': nn.Tanh, 'twice': Twice, 'soft': nn.Softplus}\n" in text
    assert "Registry" not in text and "egister" not in text and "Thrice" not in text
    assert "class Twice(nn.Module):" in text


def test_a_registry_stays_that_does_more_than_to_look_up():
    top = REGISTRY.replace("{found}", "registry.get(cfg.pop('type'))")
    made = "self.a, self.scale = build({'type': 'Tanh'}, LAYERS), len(LAYERS._name) * 2.0"
    text = pruned(model("return self.a(x) * self.scale", made, top=top))
    assert "LAYERS = Registry('layer')" in text or 'LAYERS = Registry("layer")' in text


def test_a_registry_stays_that_holds_what_has_no_name():
    top = REGISTRY.replace("{found}", "registry.get(cfg.pop('type'))")
    top += "LAYERS.register('made', module=lambda: nn.Tanh())\n"
    text = pruned(model("return self.a(x)", "self.a = build({'type': 'made'}, LAYERS)", top=top))
    assert "LAYERS = Registry(" in text

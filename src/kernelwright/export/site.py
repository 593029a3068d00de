"""One configuration of a module as a torch operator: part of every exported file."""

import copy
import inspect
import threading
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten


class Site:
    """One configuration of the module: where its tensors are, and the operator that takes them.

    Modules of equal configuration share it. It holds no weights.
    """

    def __init__(self, kernel, model, kind, tensors, plain, why):
        self.kernel, self.kind, self.why = kernel, kind, why
        self.tensors, self.plain = tensors, plain
        parameters = list(inspect.signature(kind.forward).parameters.values())[1:]
        self._names = [parameter.name for parameter in parameters]
        self._defaults = [parameter.default for parameter in parameters]
        self._plans, self._lock = {}, threading.RLock()
        self._tree: Any = None
        self._present: tuple[bool, ...] = ()
        if not why:
            self._prepare(model)

    def run(self, model, reference, args, kwargs):
        """The kernel's outputs, shaped like the reference's; or the reference's own."""
        arguments = self._positional(args, kwargs)
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        tensors += [tensor_at(model, path, name) for path, name in self.tensors]
        why = self.why or self._refusal(model, arguments, tensors)
        if why:
            if not torch.compiler.is_compiling():
                self.kernel.fallbacks += 1
                self.kernel.tell(why, depth=5)
            return reference(*args, **kwargs)
        made = iter(self._operator(tensors))
        return tree_unflatten([next(made) if here else None for here in self._present], self._tree)

    def reference(self, tensors):
        """What the reference makes of slot tensors; without a kernel, and without a gradient."""
        given = iter(tensors)
        arguments = [next(given) if want is None else want for want in self.kernel.arguments]
        held = {".".join((*path, name)): next(given) for path, name in self.tensors}
        with torch.no_grad(), self._lock:  # the template's tensors are swapped meanwhile
            return functional_call(self._template, held, tuple(arguments))

    def check(self, inputs, model):
        """Runs torch's checks of an operator on these tensors; raises what they find."""
        if self.why:
            raise RuntimeError(" ".join(map(str, self.why)))
        tensors = [*inputs, *(tensor_at(model, path, name) for path, name in self.tensors)]
        torch.library.opcheck(self._operator, ([t.detach() for t in tensors],))

    def _prepare(self, model):
        try:
            self._template = _template(model, self.kind, self.tensors)
            with FakeTensorMode():
                leaves, self._tree = tree_flatten(self.reference(self._example()))
        except Exception as error:  # a reference of any kind, run on tensors without values
            self.why = ("the reference cannot be traced:", str(error).partition("\n")[0])
            return
        self._present = tuple(isinstance(leaf, torch.Tensor) for leaf in leaves)
        library = self.kernel.library
        ours = getattr(torch.ops, library.ns)
        name = next(f"run{n}" for n in range(10**6) if not hasattr(ours, f"run{n}"))
        tags = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
        library.define(f"{name}(Tensor[] tensors) -> Tensor[]", tags=tags)
        library.impl(name, self._execute, "CPU")
        torch.library.register_fake(f"{library.ns}::{name}", self._trace, lib=library)
        self._operator = getattr(ours, name).default

    def _example(self):
        sizes = self.kernel.sizes
        for slot, kind in zip(self.kernel.slots, self.kernel.kinds, strict=True):
            shape = [sizes.get(size, size) for size in slot["sizes"]]
            strides = slot["strides"] or torch.empty(shape, device="meta").stride()
            yield torch.empty_strided(shape, strides, dtype=kind, device="cpu")

    def _positional(self, args, kwargs):
        """The arguments as they were judged: by position, without defaults that were left out."""
        arguments, rest = list(args), dict(kwargs)
        arguments += [rest.pop(name) for name in self._names[len(args) :] if name in rest]
        arguments += rest.values()
        wanted = len(self.kernel.arguments)
        while wanted < len(arguments) <= len(self._defaults):
            last, default = arguments[-1], self._defaults[len(arguments) - 1]
            if isinstance(last, torch.Tensor) or last != default:
                break
            arguments.pop()
        return arguments

    def _refusal(self, model, arguments, tensors):
        """Why the kernel may not run on these; empty where it may."""
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return ("it has no gradient: call it under torch.no_grad() or torch.inference_mode()",)
        if torch.is_autocast_enabled("cpu"):
            return ("autocast would change the precision it was judged at",)
        if not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack():
            return ("it has no rules for torch.func",)
        scalars = [None if isinstance(v, torch.Tensor) else v for v in arguments]
        if scalars != self.kernel.arguments:
            judged = self.kernel.arguments
            return ("it was judged with", judged, "among the arguments, not", scalars)
        if len(tensors) != len(self.kernel.slots):
            return ("it takes", len(self.kernel.slots), "tensors, not", len(tensors))
        return self._changed(model) or self.kernel.mismatch(tensors, {})

    def _changed(self, model):
        """What was changed in the module since it was fitted."""
        training = self.kernel.training
        for path, kind, values in self.plain:
            owner = _owner(model, path)
            if path and (
                type(owner) is not kind or owner._forward_hooks or owner._forward_pre_hooks
            ):
                return ("its", ".".join(path), "was replaced or has hooks")
            if training is not None and owner.training != training:
                return ("it was judged with model.training ==", training)
            for name, value in values.items():
                if getattr(owner, name, None) != value:
                    return ("its", ".".join((*path, name)), "was changed")
        return ()

    def _trace(self, tensors):
        leaves = tree_leaves(self.reference(tensors))
        leaves = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return [leaf.new_empty_strided(leaf.shape, leaf.stride()) for leaf in leaves]

    def _execute(self, tensors):
        key = tuple((tuple(t.shape), t.stride()) for t in tensors)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(tensors)
        return plan(tensors)

    def _plan(self, tensors):
        """A call for tensors laid out like these. The reference shows the layout of the outputs."""
        shown = [x for x in tree_leaves(self.reference(tensors)) if isinstance(x, torch.Tensor)]
        with FakeTensorMode() as mode:
            promised = [t.stride() for t in self._trace([mode.from_tensor(t) for t in tensors])]
        if self.kernel.mismatch(tensors, {}):  # a compiled program laid them out anew
            return lambda tensors: self._fresh(tree_leaves(self.reference(tensors)), promised)
        call = self.kernel.engine.prepare(tensors, shown)
        if promised == [t.stride() for t in shown] and self.kernel.engine.allocates:
            return lambda tensors: self._count(call(tensors))
        return lambda tensors: self._fresh(self._count(call(tensors)), promised)

    def _count(self, outputs):
        self.kernel.calls += 1
        return outputs

    def _fresh(self, outputs, strides):
        """Copies: no output may share memory with an argument or another output."""
        outputs = [x for x in outputs if isinstance(x, torch.Tensor)]
        pairs = zip(outputs, strides, strict=True)
        return [x.new_empty_strided(x.shape, stride).copy_(x) for x, stride in pairs]


def tensor_names(model):
    """Parameters, buffers, then plain tensor attributes, each once: path of its owner, name."""
    found = [*model.named_parameters(), *model.named_buffers()]
    seen = {id(tensor) for _, tensor in found}
    names = [(tuple(name.split(".")[:-1]), name.split(".")[-1]) for name, _ in found]
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor) and id(value) not in seen:
                seen.add(id(value))
                names.append((tuple(path.split(".")) if path else (), name))
    return names


def plain_values(model):
    """What a module and its parts hold beside tensors, parts and hooks: path, class, values."""
    own = vars(nn.Module()).keys() | {"_kernel_site"}
    found = []
    for path, module in model.named_modules():
        values = {name: value for name, value in vars(module).items() if name not in own}
        absent = {**module._parameters, **module._buffers}.items()
        values |= {name: None for name, value in absent if value is None}
        values = {k: v for k, v in values.items() if not isinstance(v, torch.Tensor)}
        found.append((tuple(path.split(".")) if path else (), type(module), values))
    return found


def _template(model, kind, tensors):
    """The module without memory, its plain tensors as buffers so that they can be substituted."""
    held = [*model.parameters(), *model.buffers(), *(tensor_at(model, *place) for place in tensors)]
    memo = {id(t): torch.empty_like(t, device="meta", requires_grad=False) for t in held}
    for tensor in model.parameters():
        memo[id(tensor)] = nn.Parameter(memo[id(tensor)], requires_grad=False)
    fresh = {name: value for name, value in vars(nn.Module()).items() if "hook" in name}
    state = {name: value for name, value in vars(model).items() if name != "_kernel_site"} | fresh
    template = kind.__new__(kind)
    template.__dict__.update(copy.deepcopy(state, memo))
    for path, name in tensors:
        owner = _owner(template, path)
        if name in vars(owner):
            value = vars(owner).pop(name)
            owner.register_buffer(name, value, persistent=False)
    return template


def _owner(model, path):
    for part in path:
        model = model._modules[part]
    return model


def tensor_at(model, path, name):
    """A tensor of a module, by a place from `tensor_names`."""
    return getattr(_owner(model, path), name)

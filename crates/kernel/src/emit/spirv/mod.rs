//! The SPIR-V emitter: SPIR-V 1.5 for Vulkan 1.2.
//!
//! The kernel is verified, optimised and lowered first; what is left maps to SPIR-V instruction by
//! instruction, one file per family:
//! * `module`: its words; `code`: opcodes. `types`: types and constants. `arith`, `convert`:
//!   numbers. `memory`: buffers, parameters, shared memory, atomics. `control`: branches, loops,
//!   barriers. `subgroup`: operations between lanes. `fragment`: tensor cores.
//!
//! What the IR promises and Vulkan does not: additions and multiplications carry `NoContraction`;
//! an fma that is not fused is built, and so are quotients and square roots that a device does not
//! round correctly, and whatever flushes subnormals (see `pass::lower`); NaN, infinities and
//! the sign of zero are asked for by an execution mode; where that is not enough, zeros are
//! disguised as a parameter.
//!
//! Integers have no sign in the types (as Vulkan asks for); instructions say how they read them. A
//! buffer is binding number `i` of set 0, in the kernel's order; parameters are push constants,
//! each at the next multiple of its size.

mod arith;
mod code;
mod control;
mod convert;
mod device;
mod fragment;
mod memory;
mod module;
mod subgroup;
mod types;

use crate::ir::{Builtin, Elem, Features, Kernel, Op, Region, Scalar, Type, Unary, Value};
use crate::pass::{self, Unsupported};
use code::{
    AddressingModel, BuiltIn, Capability, Code, Decoration, ExecutionMode, ExecutionModel, MemoryModel, NONE,
    StorageClass,
};
pub use device::Device;
use device::flushed;
use module::{Module, Part, Word, text};
use std::collections::HashMap;

/// The kernel as it is emitted: optimised, and with what the device lacks built.
///
/// # Errors
/// [`Unsupported`] if the kernel is not valid, or computes with what the device lacks and nothing
/// is built from.
pub fn legal(kernel: &Kernel, device: &Device) -> Result<Kernel, Unsupported> {
    crate::verify::verify(kernel).map_err(|e| Unsupported(e.0))?;
    if kernel.features().tma {
        return Err(Unsupported(format!("{}: SPIR-V has no TMA and wgmma", kernel.name)));
    }
    let mut k = kernel.clone();
    pass::optimize(&mut k);
    if let Some(what) = flushed(&k, device) {
        return Err(Unsupported(format!("{}: {what}", k.name)));
    }
    pass::lower(&mut k, device.legalize());
    pass::optimize(&mut k);
    Ok(k)
}

/// The words of a module with the entry point `main`.
///
/// # Errors
/// [`Unsupported`] if the kernel is not valid, or needs what the device lacks or this emitter has
/// not.
pub fn emit(kernel: &Kernel, device: &Device) -> Result<Vec<u32>, Unsupported> {
    let k = legal(kernel, device)?;
    Emitter::new(&k, device).module()
}

struct Emitter<'a> {
    k: &'a Kernel,
    device: &'a Device,
    /// What the kernel uses: asked for once, as it takes a walk through the kernel.
    uses: Features,
    b: Module,
    /// The extended instructions of GLSL.
    glsl: Word,
    /// What a value is called in the module.
    ids: Vec<Word>,
    /// Which values are constants.
    fixed: Vec<bool>,
    types: types::Types,
    buffers: Vec<Word>,
    shared: Vec<Word>,
    params: Option<Word>,
    builtins: HashMap<BuiltInKey, Word>,
    /// The block that is being written.
    label: Word,
}

/// Which input variable.
type BuiltInKey = u32;

impl<'a> Emitter<'a> {
    fn new(k: &'a Kernel, device: &'a Device) -> Self {
        Emitter {
            k,
            device,
            uses: k.features(),
            b: Module::new(),
            glsl: 0,
            ids: vec![0; k.values.len()],
            fixed: vec![false; k.values.len()],
            types: types::Types::default(),
            buffers: Vec::new(),
            shared: Vec::new(),
            params: None,
            builtins: HashMap::new(),
            label: 0,
        }
    }

    fn unsupported<T>(&self, what: &str) -> Result<T, Unsupported> {
        Err(Unsupported(format!("{}: {what}", self.k.name)))
    }

    fn module(mut self) -> Result<Vec<u32>, Unsupported> {
        self.check_fragments()?;
        self.capabilities();
        self.glsl = self.b.id();
        self.b.put(Part::Imports, Code::ExtInstImport, &[&[self.glsl], &text("GLSL.std.450")[..]].concat());
        let mut model = MemoryModel::GLSL450;
        if self.has_fragments() {
            self.b.put(Part::Extensions, Code::Extension, &text("SPV_KHR_cooperative_matrix"));
            model = MemoryModel::Vulkan;
        }
        let model = [AddressingModel::Logical as Word, model as Word];
        self.b.put(Part::MemoryModel, Code::MemoryModel, &model);
        self.declare_memory()?;
        self.declare_builtins();

        let void = self.b.declare(Code::TypeVoid, &[]);
        let signature = self.b.declare(Code::TypeFunction, &[void]);
        let main = self.b.id();
        self.does(Code::Function, &[void, main, NONE, signature]);
        let first = self.b.id();
        self.begin(first);
        let kernel = self.k;
        self.region(&kernel.body)?;
        self.does(Code::Return, &[]);
        self.does(Code::FunctionEnd, &[]);

        let mut interface: Vec<Word> = self.buffers.iter().chain(&self.shared).copied().collect();
        interface.extend(self.params);
        let mut inputs: Vec<(BuiltInKey, Word)> = self.builtins.iter().map(|(&k, &v)| (k, v)).collect();
        inputs.sort_unstable();
        interface.extend(inputs.into_iter().map(|(_, v)| v));
        let entry = [&[ExecutionModel::GLCompute as Word, main], &text("main")[..], &interface].concat();
        self.b.put(Part::EntryPoints, Code::EntryPoint, &entry);
        let [x, y, z] = self.k.group;
        self.mode(main, ExecutionMode::LocalSize, &[x, y, z]);
        for (mode, width) in self.float_modes() {
            self.mode(main, mode, &[width]);
        }
        Ok(self.b.words())
    }

    fn mode(&mut self, main: Word, mode: ExecutionMode, numbers: &[Word]) {
        self.b.put(Part::Modes, Code::ExecutionMode, &[&[main, mode as Word], numbers].concat());
    }
    fn begin(&mut self, label: Word) {
        self.does(Code::Label, &[label]);
        self.label = label;
    }

    /// An instruction without a result.
    fn does(&mut self, code: Code, operands: &[Word]) {
        self.b.put(Part::Functions, code, operands);
    }
    /// An instruction with a result.
    fn inst(&mut self, code: Code, ty: Word, operands: &[Word]) -> Word {
        let id = self.b.id();
        self.inst_as(id, code, ty, operands);
        id
    }
    /// An instruction whose result has a name already.
    fn inst_as(&mut self, id: Word, code: Code, ty: Word, operands: &[Word]) {
        self.does(code, &[&[ty, id], operands].concat());
    }

    fn id(&self, v: Value) -> Word {
        self.ids[v.0 as usize]
    }
    fn ty(&self, v: Value) -> Type {
        self.k.ty(v)
    }
    fn scalar(&self, v: Value) -> Scalar {
        self.ty(v).scalar().expect("the verifier has seen to it")
    }

    fn each_op(&self, f: &mut dyn FnMut(&Op)) {
        self.k.body.each_inst(&mut |inst| f(&inst.op));
    }

    fn capabilities(&mut self) {
        let f = self.uses;
        let mut all = vec![Capability::Shader];
        if f.f64 {
            all.push(Capability::Float64);
        }
        // The bits of an f64 are a 64-bit integer (see `select`).
        if f.i64 || f.f64 {
            all.push(Capability::Int64);
        }
        if f.half {
            all.push(Capability::StorageBuffer16BitAccess);
        }
        if f.bytes {
            all.push(Capability::StorageBuffer8BitAccess);
        }
        let (mut half, mut lanes) = (false, [false; 3]);
        self.each_op(&mut |op| match op {
            Op::Unary(Unary::RoundF16, _) => half = true,
            Op::Shuffle(..) => lanes[0] = true,
            Op::Broadcast(..) => lanes[1] = true,
            Op::Reduce(..) => lanes[2] = true,
            _ => {}
        });
        if f.fragments {
            all.extend([Capability::CooperativeMatrixKHR, Capability::VulkanMemoryModel]);
        }
        // Shared memory of f16 is arithmetic on it, as far as Vulkan is concerned.
        if half || f.fragments || self.k.shared.iter().any(|s| s.elem == Elem::F16) {
            all.push(Capability::Float16);
        }
        if f.subgroups {
            all.push(Capability::GroupNonUniform);
        }
        let kinds = [
            Capability::GroupNonUniformShuffle,
            Capability::GroupNonUniformBallot,
            Capability::GroupNonUniformArithmetic,
        ];
        all.extend(kinds.into_iter().zip(lanes).filter(|(_, used)| *used).map(|(c, _)| c));
        for (mode, _) in self.float_modes() {
            let needed = match mode {
                ExecutionMode::SignedZeroInfNanPreserve => Capability::SignedZeroInfNanPreserve,
                ExecutionMode::RoundingModeRTE => Capability::RoundingModeRTE,
                _ => Capability::DenormPreserve,
            };
            if !all.contains(&needed) {
                all.push(needed);
            }
        }
        all.into_iter().for_each(|c| self.b.capability(c));
    }

    /// The execution modes for floats, of the widths that the kernel has.
    fn float_modes(&self) -> Vec<(ExecutionMode, u32)> {
        let f = self.uses;
        let has = [f.half && self.has_f16(), true, f.f64];
        let mut all = Vec::new();
        for (i, width) in [16, 32, 64].into_iter().enumerate().filter(|(i, _)| has[*i]) {
            if self.device.rounds_to_even[i] {
                all.push((ExecutionMode::RoundingModeRTE, width));
            }
            if i > 0 && self.device.keeps_nan[i - 1] {
                all.push((ExecutionMode::SignedZeroInfNanPreserve, width));
            }
            if i > 0 && self.device.keeps_subnormals[i - 1] {
                all.push((ExecutionMode::DenormPreserve, width));
            }
        }
        all
    }
    fn has_f16(&self) -> bool {
        self.k.buffers.iter().any(|b| b.elem == Elem::F16)
    }

    fn declare_builtins(&mut self) {
        let mut used = Vec::new();
        self.each_op(&mut |op| {
            if let Op::Builtin(b) = op {
                used.push(*b);
            }
        });
        for b in used {
            let (built_in, vector) = built_in(b);
            let key = built_in as u32;
            if self.builtins.contains_key(&key) {
                continue;
            }
            let ty = if vector { self.uint3() } else { self.word(Scalar::U32.into()) };
            let pointer = self.pointer(StorageClass::Input, ty);
            let v = self.b.global(Code::Variable, pointer, &[StorageClass::Input as Word]);
            self.b.decorate(v, Decoration::BuiltIn, &[built_in as Word]);
            self.builtins.insert(key, v);
        }
    }

    fn builtin(&mut self, b: Builtin) -> Word {
        let (built_in, vector) = built_in(b);
        let variable = self.builtins[&(built_in as u32)];
        let uint = self.word(Scalar::U32.into());
        let ty = if vector { self.uint3() } else { uint };
        let all = self.inst(Code::Load, ty, &[variable]);
        match b {
            Builtin::GroupId(a) | Builtin::GroupCount(a) | Builtin::LocalId(a) => {
                self.inst(Code::CompositeExtract, uint, &[all, u32::from(a)])
            }
            Builtin::LocalIndex | Builtin::SubgroupLane | Builtin::SubgroupId => all,
        }
    }

    fn region(&mut self, r: &Region) -> Result<(), Unsupported> {
        for inst in &r.insts {
            let results = self.one(&inst.op, &inst.results)?;
            for (v, id) in inst.results.iter().zip(results) {
                self.ids[v.0 as usize] = id;
                self.fixed[v.0 as usize] = match &inst.op {
                    Op::Const(_) => true,
                    Op::Splat(_, a) => self.fixed[a.0 as usize],
                    _ => false,
                };
            }
        }
        Ok(())
    }

    /// The ids of an instruction's results.
    fn one(&mut self, op: &Op, results: &[Value]) -> Result<Vec<Word>, Unsupported> {
        let ty = results.first().map(|&v| self.ty(v));
        let made = || ty.expect("the verifier has seen to it");
        Ok(vec![match op {
            Op::Const(c) if c.scalar.is_float() && c.bits == 0 && !self.device.keeps_zeros => {
                self.zero(c.scalar)
            }
            Op::Const(c) => self.constant(*c),
            Op::Param(i) => self.param(*i),
            Op::Builtin(b) => self.builtin(*b),
            Op::Unary(op, a) => self.unary(*op, *a)?,
            Op::Binary(op, a, b) => self.binary(*op, *a, *b)?,
            Op::Compare(op, a, b) => self.compare(*op, *a, *b),
            Op::Fma(a, b, c) => self.fma(*a, *b, *c),
            Op::Select(c, a, b) => self.select(*c, *a, *b),
            Op::Convert(to, a) => self.convert(*to, *a),
            Op::FpToSi(a) => {
                let (ty, a) = (self.word(made()), self.id(*a));
                self.inst(Code::ConvertFToS, ty, &[a])
            }
            Op::Bitcast(_, a) => self.bits(made(), *a),
            Op::Splat(w, a) => {
                let (ty, a) = (self.word(made()), self.id(*a));
                self.inst(Code::CompositeConstruct, ty, &vec![a; usize::from(*w)])
            }
            Op::Compose(all) => {
                let all: Vec<Word> = all.iter().map(|&v| self.id(v)).collect();
                let ty = self.word(made());
                self.inst(Code::CompositeConstruct, ty, &all)
            }
            Op::Extract(a, i) => {
                let (ty, a, i) = (self.word(made()), self.id(*a), u32::from(*i));
                self.inst(Code::CompositeExtract, ty, &[a, i])
            }
            Op::Load(p, at, w) => self.load(*p, *at, *w),
            Op::Store(p, at, v) => {
                self.store(*p, *at, *v);
                return Ok(Vec::new());
            }
            Op::Atomic(op, p, at, v) => self.atomic(*op, *p, *at, *v),
            Op::Barrier => {
                self.barrier();
                return Ok(Vec::new());
            }
            Op::CpAsync { .. } | Op::CpAsyncCommit | Op::CpAsyncWait(_) => {
                unreachable!("copies are lowered before")
            }
            Op::Shuffle(v, lane) => self.shuffle(*v, *lane),
            Op::Broadcast(v, lane) => self.broadcast(*v, *lane),
            Op::Reduce(op, v) => self.reduce(*op, *v),
            Op::FragmentLoad(f, l, p, at, stride) => self.fragment_load(*f, *l, *p, [*at, *stride]),
            Op::FragmentFill(f, v) => self.fragment_fill(*f, *v),
            Op::FragmentMulAdd(a, b, c) => self.fragment_mul_add(made(), [*a, *b, *c]),
            Op::TmaLoad { .. }
            | Op::MbarrierWait(..)
            | Op::WgmmaSs { .. }
            | Op::WgmmaRs { .. }
            | Op::WgmmaWait(_) => {
                return self.unsupported("TMA and wgmma");
            }
            Op::FragmentExtract(..) | Op::FragmentCompose(..) => {
                return self.unsupported("which lane has which number of a fragment is not known to SPIR-V");
            }
            Op::FragmentStore(l, p, at, stride, v) => {
                self.fragment_store(*l, *p, [*at, *stride], *v);
                return Ok(Vec::new());
            }
            Op::If(c, then, other) => return self.branch(*c, then, other, results),
            Op::For { start, end, step, init, body } => {
                return self.repeat([*start, *end, *step], init, body);
            }
        }])
    }
}

/// The input variable of a builtin, and whether it is a vector of three.
fn built_in(b: Builtin) -> (BuiltIn, bool) {
    match b {
        Builtin::GroupId(_) => (BuiltIn::WorkgroupId, true),
        Builtin::GroupCount(_) => (BuiltIn::NumWorkgroups, true),
        Builtin::LocalId(_) => (BuiltIn::LocalInvocationId, true),
        Builtin::LocalIndex => (BuiltIn::LocalInvocationIndex, false),
        Builtin::SubgroupLane => (BuiltIn::SubgroupLocalInvocationId, false),
        Builtin::SubgroupId => (BuiltIn::SubgroupId, false),
    }
}

//! Text form: the printer.

use super::words::Word;
use crate::ir::{Constant, Inst, Kernel, Op, Place, Region, Scalar, TmaTile, Value};
use std::fmt::Write;

/// The text of a kernel.
pub fn print(k: &Kernel) -> String {
    let mut p = Printer { kernel: k, out: String::new(), depth: 1 };
    let [x, y, z] = k.group;
    let _ = writeln!(p.out, "kernel {} group {x} {y} {z} {{", k.name);
    if let Some(lanes) = k.subgroup {
        p.line(&format!("subgroup {lanes}"));
    }
    if let Some(workgroups) = k.min_blocks_per_sm {
        p.line(&format!("min_blocks_per_sm {workgroups}"));
    }
    for b in &k.buffers {
        p.line(&format!("buffer {} {} {}", b.name, b.elem, b.access.word()));
    }
    for x in &k.params {
        p.line(&format!("param {} {}", x.name, x.scalar));
    }
    for v in &k.views {
        let name = |i: u32| k.params.get(i as usize).map_or("?", |p| p.name.as_str());
        let buffer = k.buffers.get(v.buffer as usize).map_or("?", |b| &b.name);
        let numbers = v.param_ids().map(name).join(" ");
        p.line(&format!("view {} {buffer} {} {numbers}", v.name, v.lines));
    }
    for s in &k.shared {
        p.line(&format!("shared {} {} {}", s.name, s.elem, s.len));
    }
    if k.mbarriers > 0 {
        p.line(&format!("mbarriers {}", k.mbarriers));
    }
    p.region(&k.body);
    p.out.push_str("}\n");
    p.out
}

/// The text of an instruction, without what its regions hold.
pub fn print_inst(k: &Kernel, inst: &Inst) -> String {
    let p = Printer { kernel: k, out: String::new(), depth: 0 };
    format!("{}{}", p.results(&inst.results), p.op(&inst.op))
}

struct Printer<'a> {
    kernel: &'a Kernel,
    out: String,
    depth: usize,
}

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", self.depth * 2);
    }

    fn region(&mut self, r: &Region) {
        for inst in &r.insts {
            let head = format!("{}{}", self.results(&inst.results), self.op(&inst.op));
            let regions = inst.op.regions();
            if regions.is_empty() {
                self.line(&head);
                continue;
            }
            self.line(&format!("{head} {{"));
            for (i, inner) in regions.iter().enumerate() {
                // An empty second branch is left out.
                if i > 0 && **inner == Region::default() {
                    continue;
                }
                if i > 0 {
                    self.line("} else {");
                }
                self.depth += 1;
                self.region(inner);
                self.depth -= 1;
            }
            self.line("}");
        }
        if !r.yields.is_empty() {
            self.line(&format!("yield {}", list(&r.yields)));
        }
    }

    fn results(&self, all: &[Value]) -> String {
        if all.is_empty() {
            return String::new();
        }
        format!("{} = ", self.typed(all).join(", "))
    }
    fn typed(&self, all: &[Value]) -> Vec<String> {
        let ty = |v: &Value| self.kernel.values.get(v.0 as usize).map_or("?".to_string(), |t| t.to_string());
        all.iter().map(|v| format!("%{}: {}", v.0, ty(v))).collect()
    }
    fn place(&self, p: Place) -> &str {
        match p {
            Place::Buffer(i) => self.kernel.buffers.get(i as usize).map_or("?", |b| &b.name),
            Place::Shared(i) => self.kernel.shared.get(i as usize).map_or("?", |b| &b.name),
        }
    }

    fn op(&self, op: &Op) -> String {
        match op {
            Op::Const(c) => format!("const {}", number(*c)),
            Op::Param(i) => {
                format!("param {}", self.kernel.params.get(*i as usize).map_or("?", |p| &p.name))
            }
            Op::Builtin(b) => b.word().to_string(),
            Op::Unary(op, a) => format!("{} %{}", op.word(), a.0),
            Op::Binary(op, a, b) => format!("{} {}", op.word(), list(&[*a, *b])),
            Op::Compare(op, a, b) => format!("{} {}", op.word(), list(&[*a, *b])),
            Op::Fma(a, b, c) => format!("fma {}", list(&[*a, *b, *c])),
            Op::Select(a, b, c) => format!("select {}", list(&[*a, *b, *c])),
            Op::Convert(_, a) => format!("convert %{}", a.0),
            Op::FpToSi(a) => format!("fptosi %{}", a.0),
            Op::Bitcast(_, a) => format!("bitcast %{}", a.0),
            Op::Splat(_, a) => format!("splat %{}", a.0),
            Op::Compose(all) => format!("compose {}", list(all)),
            Op::Extract(a, i) => format!("extract %{}, {i}", a.0),
            Op::Load(p, at, _) => format!("load {}[%{}]", self.place(*p), at.0),
            Op::Store(p, at, v) => format!("store {}[%{}] = %{}", self.place(*p), at.0, v.0),
            Op::Atomic(op, p, at, v) => format!("{} {}[%{}], %{}", op.word(), self.place(*p), at.0, v.0),
            Op::Barrier => "barrier".to_string(),
            Op::CpAsync { to, at, from, index, count, there } => {
                let [to, from] = [to, from].map(|p| self.place(*p));
                format!("cp_async {to}[%{}] = {from}[%{}], {count}, %{}", at.0, index.0, there.0)
            }
            Op::CpAsyncCommit => "cp_async_commit".to_string(),
            Op::CpAsyncWait(open) => format!("cp_async_wait {open}"),
            Op::Shuffle(v, lane) => format!("shuffle {}", list(&[*v, *lane])),
            Op::Broadcast(v, lane) => format!("broadcast %{}, {lane}", v.0),
            Op::Reduce(op, v) => format!("{} %{}", op.word(), v.0),
            Op::FragmentLoad(_, l, p, at, stride) => {
                format!("fragment_load {} {}[%{}], %{}", l.word(), self.place(*p), at.0, stride.0)
            }
            Op::FragmentFill(_, v) => format!("fragment_fill %{}", v.0),
            Op::FragmentMulAdd(a, b, c) => format!("fragment_mul_add {}", list(&[*a, *b, *c])),
            Op::FragmentExtract(v, i) => format!("fragment_extract %{}, {i}", v.0),
            Op::FragmentCompose(_, all) => format!("fragment_compose {}", list(all)),
            Op::FragmentStore(l, p, at, stride, v) => {
                let place = self.place(*p);
                format!("fragment_store {} {place}[%{}], %{} = %{}", l.word(), at.0, stride.0, v.0)
            }
            Op::TmaLoad { mbarrier, tiles } => {
                let mut text = format!("tma_load %{}", mbarrier.0);
                for TmaTile { to, at, view, from } in tiles {
                    let (to, from) = (self.place(*to), list(from));
                    let view = self.kernel.views.get(*view as usize).map_or("?", |v| &v.name);
                    let _ = write!(text, ", {to}[%{}] = {view}[{from}]", at.0);
                }
                text
            }
            Op::MbarrierWait(mbarrier, phase) => format!("mbarrier_wait {}", list(&[*mbarrier, *phase])),
            Op::WgmmaSs { a, b, sums } => {
                let [a, b] = [a, b].map(|(l, p, at)| format!("{} {}[%{}]", l.word(), self.place(*p), at.0));
                format!("wgmma_ss {a}, {b}, {}", list(sums))
            }
            Op::WgmmaRs { a, b: (l, p, at), sums } => {
                format!("wgmma_rs {}, {} {}[%{}], {}", list(a), l.word(), self.place(*p), at.0, list(sums))
            }
            Op::WgmmaWait(open) => format!("wgmma_wait {open}"),
            Op::If(c, _, _) => format!("if %{}", c.0),
            Op::For { start, end, step, init, body } => {
                let typed = self.typed(&body.args);
                let index = typed.first().map_or("?", |t| t);
                let mut text = format!("for {index} = %{} to %{} step %{}", start.0, end.0, step.0);
                for (i, (t, v)) in typed.iter().skip(1).zip(init).enumerate() {
                    let _ = write!(text, "{} {t} = %{}", if i == 0 { " carry" } else { "," }, v.0);
                }
                text
            }
        }
    }
}

fn list(all: &[Value]) -> String {
    all.iter().map(|v| format!("%{}", v.0)).collect::<Vec<_>>().join(", ")
}

/// A number, so that reading it gives the same bits.
fn number(c: Constant) -> String {
    let nan = |is_usual: bool| if is_usual { "nan".to_string() } else { format!("nan@{:#x}", c.bits) };
    match c.scalar {
        Scalar::Bool => (c.bits != 0).to_string(),
        Scalar::I32 => (c.bits as u32 as i32).to_string(),
        Scalar::I64 => (c.bits as i64).to_string(),
        Scalar::U32 | Scalar::U64 => c.bits.to_string(),
        Scalar::F32 => match f32::from_bits(c.bits as u32) {
            v if v.is_nan() => nan(c == Constant::float(Scalar::F32, f64::NAN)),
            v => format!("{v:?}"),
        },
        Scalar::F64 => match f64::from_bits(c.bits) {
            v if v.is_nan() => nan(c == Constant::float(Scalar::F64, f64::NAN)),
            v => format!("{v:?}"),
        },
    }
}

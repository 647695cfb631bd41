//! Verifier: operands and results fit the instruction.

use super::{Check, at, tma_wgmma};
use crate::arith;
use crate::ir::{
    Builtin, Elem, Fragment, Inst, Kernel, MmaShape, Op, Place, Region, Role, Scalar, Type, Value,
};

/// Shapes of fragments that some device multiplies: m, n, k.
pub const FRAGMENT_SHAPES: [[u8; 3]; 6] =
    [[8, 8, 8], [16, 16, 16], [16, 8, 16], [16, 8, 8], [16, 16, 8], [32, 8, 16]];

pub(super) fn check(k: &Kernel) -> Check {
    region(k, &k.body)
}

fn region(k: &Kernel, r: &Region) -> Check {
    for inst in &r.insts {
        one(k, inst)?;
        for inner in inst.op.regions() {
            region(k, inner)?;
        }
    }
    Ok(())
}

/// What an instruction gives: nothing, a type, or what its regions say.
enum ResultTypes {
    Nothing,
    One(Type),
    Many(Vec<Type>),
}

fn one(k: &Kernel, inst: &Inst) -> Check {
    let wrong = |what: String| match at(k, inst, what) {
        Err(e) => e,
        Ok(()) => unreachable!("a sentence is an error"),
    };
    let want = match gives(k, &inst.op).map_err(wrong)? {
        ResultTypes::Nothing => Vec::new(),
        ResultTypes::One(t) => vec![t],
        ResultTypes::Many(all) => all,
    };
    let seen: Vec<Type> = inst.results.iter().map(|&v| k.ty(v)).collect();
    if seen != want {
        let show = |all: &[Type]| all.iter().map(|t| t.to_string()).collect::<Vec<_>>().join(", ");
        return at(k, inst, format_args!("the result is {}, and should be {}", show(&seen), show(&want)));
    }
    Ok(())
}

type Checked<T> = Result<T, String>;

fn gives(k: &Kernel, op: &Op) -> Checked<ResultTypes> {
    let ty = |v: &Value| k.ty(*v);
    Ok(ResultTypes::One(match op {
        Op::Const(c) => {
            let (s, w) = (c.scalar, c.scalar.bits());
            if w < 64 && c.bits >> w != 0 {
                return Err(format!("the bits {:#x} are no {s}", c.bits));
            }
            s.into()
        }
        Op::Param(i) => match k.params.get(*i as usize) {
            Some(p) => p.scalar.into(),
            None => return Err(format!("there is no parameter {i}")),
        },
        Op::Builtin(b) => {
            match b {
                Builtin::GroupId(a) | Builtin::GroupCount(a) | Builtin::LocalId(a) if *a > 2 => {
                    return Err(format!("there is no axis {a}"));
                }
                Builtin::SubgroupLane | Builtin::SubgroupId => lanes(k)?,
                Builtin::GroupId(_) | Builtin::GroupCount(_) | Builtin::LocalId(_) | Builtin::LocalIndex => 1,
            };
            Type::U32
        }
        Op::Unary(op, a) => {
            let (t, s) = vector(k, a)?;
            arith::unary(*op, s).ok_or_else(|| format!("a {s} has not this operation"))?;
            t
        }
        Op::Binary(op, a, b) => {
            let (t, s) = vector(k, a)?;
            same(k, a, b)?;
            arith::binary(*op, s).ok_or_else(|| format!("a {s} has not this operation"))?;
            t
        }
        Op::Compare(_, a, b) => {
            let (t, _) = vector(k, a)?;
            same(k, a, b)?;
            t.of(Scalar::Bool)
        }
        Op::Fma(a, b, c) => {
            let (t, s) = vector(k, a)?;
            same(k, a, b)?;
            same(k, a, c)?;
            arith::fma(s, true).ok_or_else(|| format!("a {s} has not this operation"))?;
            t
        }
        Op::Select(c, a, b) => {
            let (t, _) = vector(k, a)?;
            same(k, a, b)?;
            if ty(c) != t.of(Scalar::Bool) {
                return Err(format!("the condition is {}, and should be {}", ty(c), t.of(Scalar::Bool)));
            }
            t
        }
        Op::Convert(to, a) => {
            let (t, s) = vector(k, a)?;
            if s == *to {
                return Err(format!("a {s} is one already"));
            }
            t.of(*to)
        }
        Op::FpToSi(a) => {
            let (t, s) = vector(k, a)?;
            t.of(arith::whole(s).ok_or_else(|| format!("a {s} is no float"))?.0)
        }
        Op::Bitcast(to, a) => {
            let (t, s) = vector(k, a)?;
            if !arith::bits(s, *to) || s == *to {
                return Err(format!("the bits of a {s} are not those of a {to}"));
            }
            t.of(*to)
        }
        Op::Splat(w, a) => {
            let s = scalar(k, a)?;
            width(*w, false)?;
            Type::Vector(s, *w)
        }
        Op::Compose(all) => {
            let first = all.first().ok_or("a vector of nothing")?;
            let s = scalar(k, first)?;
            for v in all {
                same(k, first, v)?;
            }
            let w = all.len().min(255) as u8;
            width(w, false)?;
            Type::Vector(s, w)
        }
        Op::Extract(a, i) => {
            let (t, s) = vector(k, a)?;
            if t.width() == 1 || *i >= t.width() {
                return Err(format!("number {i} of {t}"));
            }
            s.into()
        }
        Op::Load(p, at, w) => {
            width(*w, true)?;
            index(k, at)?;
            let elem = place(k, *p, true, false)?;
            Type::Vector(elem.scalar(), *w)
        }
        Op::Store(p, at, v) => {
            index(k, at)?;
            let elem = place(k, *p, false, true)?;
            let (_, s) = vector(k, v)?;
            if s != elem.scalar() {
                return Err(format!("a {s} is stored where {elem} lie, which take {}", elem.scalar()));
            }
            return Ok(ResultTypes::Nothing);
        }
        Op::Atomic(op, p, at, v) => {
            index(k, at)?;
            let elem = place(k, *p, true, true)?;
            let s = scalar(k, v)?;
            if elem.scalar() != s || !matches!(elem, Elem::I32 | Elem::U32) || arith::atomic(*op, s).is_none()
            {
                return Err(format!("atomics are for i32 and u32, not for a {s} where {elem} lie"));
            }
            s.into()
        }
        Op::Barrier | Op::CpAsyncCommit | Op::CpAsyncWait(_) => return Ok(ResultTypes::Nothing),
        Op::CpAsync { to, at, from, index: first, count, there } => {
            index(k, at)?;
            index(k, first)?;
            if ty(there) != Type::BOOL {
                return Err(format!("the condition is {}, and should be bool", ty(there)));
            }
            copy(k, *to, *from, *count)?;
            return Ok(ResultTypes::Nothing);
        }
        Op::TmaLoad { mbarrier, tiles: all } => {
            mbarriers(k, mbarrier)?;
            all.iter().try_for_each(|f| tma_wgmma::tma_tile(k, f))?;
            if all.is_empty() {
                return Err("nothing is fetched".to_string());
            }
            return Ok(ResultTypes::Nothing);
        }
        Op::MbarrierWait(mbarrier, phase) => {
            mbarriers(k, mbarrier)?;
            tma_wgmma::word(k, phase)?;
            return Ok(ResultTypes::Nothing);
        }
        Op::WgmmaSs { a, b, sums } => {
            tma_wgmma::product(k, [a, b], sums)?;
            return Ok(ResultTypes::Many(sums.iter().map(ty).collect()));
        }
        Op::WgmmaRs { a, b, sums } => {
            tma_wgmma::product_of_rows(k, a, b, sums)?;
            return Ok(ResultTypes::Many(sums.iter().map(ty).collect()));
        }
        Op::WgmmaWait(_) => return Ok(ResultTypes::Nothing),
        Op::Shuffle(v, lane) => {
            lanes(k)?;
            if ty(lane) != Type::U32 {
                return Err(format!("the lane is {}, and should be u32", ty(lane)));
            }
            exchanged(k, v)?
        }
        Op::Broadcast(v, lane) => {
            let n = lanes(k)?;
            if u32::from(*lane) >= n {
                return Err(format!("lane {lane} of {n}"));
            }
            exchanged(k, v)?
        }
        Op::Reduce(op, v) => {
            lanes(k)?;
            let (t, s) = vector(k, v)?;
            arith::reduce(*op, s).ok_or_else(|| format!("this over many {s} has an order, or no meaning"))?;
            t
        }
        Op::FragmentLoad(f, _, p, at, stride) => {
            fragment(k, *f)?;
            index(k, at)?;
            index(k, stride)?;
            let elem = place(k, *p, true, false)?;
            if elem != f.elem {
                return Err(format!("{elem} lie there, not {}", f.elem));
            }
            Type::Fragment(*f)
        }
        Op::FragmentFill(f, v) => {
            fragment(k, *f)?;
            if ty(v) != f.elem.scalar().into() {
                return Err(format!("the number is {}, and should be {}", ty(v), f.elem.scalar()));
            }
            Type::Fragment(*f)
        }
        Op::FragmentMulAdd(a, b, c) => {
            let (Type::Fragment(fa), Type::Fragment(fb), Type::Fragment(fc)) = (ty(a), ty(b), ty(c)) else {
                return Err("an operand is no fragment".to_string());
            };
            let sizes = |f: Fragment| (f.m, f.n, f.k);
            let roles = (fa.role, fb.role, fc.role) == (Role::A, Role::B, Role::C);
            let double = [fa, fc].map(|f| f.elem == Elem::F64);
            let elems = fa.elem == fb.elem && double[0] == double[1];
            if !roles || sizes(fa) != sizes(fb) || sizes(fa) != sizes(fc) || !elems {
                return Err(format!("{fa}, {fb} and {fc} do not fit together"));
            }
            ty(c)
        }
        Op::FragmentExtract(v, i) => {
            let Type::Fragment(f) = ty(v) else { return Err(format!("%{} is no fragment", v.0)) };
            if f.role != Role::C || spread(k, f)? <= usize::from(*i) {
                return Err(format!("columns {} to {} of a {f}, as sums", 8 * i, 8 * i + 7));
            }
            Type::Vector(f.elem.scalar(), 4)
        }
        Op::FragmentCompose(f, all) => {
            fragment(k, *f)?;
            let half = matches!(f.elem, Elem::F16 | Elem::BF16);
            if f.role == Role::B || (f.role == Role::A && !half) || spread(k, *f)? != all.len() {
                return Err(format!("a {f} is not made of {} vectors", all.len()));
            }
            let four = Type::Vector(f.elem.scalar(), 4);
            if let Some(v) = all.iter().find(|v| ty(v) != four) {
                return Err(format!("%{} is {}, and should be {four}", v.0, ty(v)));
            }
            Type::Fragment(*f)
        }
        Op::FragmentStore(_, p, at, stride, v) => {
            index(k, at)?;
            index(k, stride)?;
            let elem = place(k, *p, false, true)?;
            match ty(v) {
                Type::Fragment(f) if f.role == Role::C && f.elem == elem => return Ok(ResultTypes::Nothing),
                t => return Err(format!("a {t} is stored where {elem} lie; sums are stored as they are")),
            }
        }
        Op::If(c, then, other) => {
            if ty(c) != Type::BOOL {
                return Err(format!("the condition is {}, and should be bool", ty(c)));
            }
            let all: Vec<Type> = then.yields.iter().map(ty).collect();
            if !other.yields.iter().map(ty).eq(all.iter().copied()) {
                return Err("the branches yield different types".to_string());
            }
            return Ok(ResultTypes::Many(all));
        }
        Op::For { start, end, step, init, body } => {
            index(k, start)?;
            same(k, start, end)?;
            same(k, start, step)?;
            let all: Vec<Type> = init.iter().map(ty).collect();
            let args = std::iter::once(ty(start)).chain(all.iter().copied());
            if !body.args.iter().map(ty).eq(args) || !body.yields.iter().map(ty).eq(all.iter().copied()) {
                return Err("what is carried changes its type".to_string());
            }
            return Ok(ResultTypes::Many(all));
        }
    }))
}

fn vector(k: &Kernel, v: &Value) -> Checked<(Type, Scalar)> {
    let t = k.ty(*v);
    match t {
        Type::Vector(s, w) => {
            width(w, true)?;
            Ok((t, s))
        }
        Type::Fragment(f) => Err(format!("%{} is a {f}", v.0)),
    }
}
fn scalar(k: &Kernel, v: &Value) -> Checked<Scalar> {
    match k.ty(*v) {
        Type::Vector(s, 1) => Ok(s),
        t @ (Type::Vector(..) | Type::Fragment(_)) => {
            Err(format!("%{} is {t}, and should be one number", v.0))
        }
    }
}
fn same(k: &Kernel, a: &Value, b: &Value) -> Checked<()> {
    let (t, u) = (k.ty(*a), k.ty(*b));
    if t == u { Ok(()) } else { Err(format!("%{} is {t}, and %{} is {u}", a.0, b.0)) }
}
fn width(w: u8, one: bool) -> Checked<()> {
    match w {
        2 | 4 => Ok(()),
        1 if one => Ok(()),
        _ => Err(format!("a width of {w}; vectors have 2 or 4 numbers")),
    }
}
pub(super) fn index(k: &Kernel, v: &Value) -> Checked<()> {
    let s = scalar(k, v)?;
    if s.is_int() { Ok(()) } else { Err(format!("%{} is {s}, and should be an integer", v.0)) }
}
fn place(k: &Kernel, p: Place, loads: bool, stores: bool) -> Checked<Elem> {
    match p {
        Place::Buffer(i) => {
            let b = k.buffers.get(i as usize).ok_or_else(|| format!("there is no buffer {i}"))?;
            if loads && !b.access.reads() {
                return Err(format!("{} is only written to", b.name));
            }
            if stores && !b.access.writes() {
                return Err(format!("{} is only read", b.name));
            }
            Ok(b.elem)
        }
        Place::Shared(i) => {
            let s = k.shared.get(i as usize).ok_or_else(|| format!("there is no shared memory {i}"))?;
            Ok(s.elem)
        }
    }
}
/// Copies go from read-only buffers to shared memory, and are as large as those that devices have.
fn copy(k: &Kernel, to: Place, from: Place, count: u8) -> Checked<()> {
    let (here, there) = (place(k, to, false, true)?, place(k, from, true, false)?);
    let Place::Shared(_) = to else { return Err("copies go to shared memory".to_string()) };
    match from {
        Place::Buffer(i) if !k.buffers[i as usize].access.writes() => {}
        Place::Buffer(_) | Place::Shared(_) => {
            return Err("copies come from a buffer that is only read".to_string());
        }
    }
    if here != there {
        return Err(format!("{there} are copied to where {here} lie"));
    }
    match u32::from(count) * here.size() {
        4 | 8 | 16 => Ok(()),
        bytes => Err(format!("a copy of {bytes} bytes; 4, 8 or 16 are copied at once")),
    }
}
fn mbarriers(k: &Kernel, mbarrier: &Value) -> Checked<()> {
    tma_wgmma::word(k, mbarrier)?;
    if k.mbarriers > 0 { Ok(()) } else { Err("the kernel has no mbarriers".to_string()) }
}
fn lanes(k: &Kernel) -> Checked<u32> {
    k.subgroup.ok_or_else(|| "the kernel does not say how large its subgroups are".to_string())
}
/// What subgroups can hand from lane to lane: numbers of 32 bits.
fn exchanged(k: &Kernel, v: &Value) -> Checked<Type> {
    let (t, s) = vector(k, v)?;
    match s {
        Scalar::I32 | Scalar::U32 | Scalar::F32 => Ok(t),
        Scalar::Bool | Scalar::I64 | Scalar::U64 | Scalar::F64 => {
            Err(format!("lanes hand over numbers of 32 bits, not {s}"))
        }
    }
}
/// Eighths of a fragment's columns, if lanes have its numbers in the known way.
fn spread(k: &Kernel, f: Fragment) -> Checked<usize> {
    let (rows, columns) = f.shape();
    if lanes(k)? == 32 && rows == 16 && columns.is_multiple_of(8) {
        return Ok(columns / 8);
    }
    Err(format!("which lane has which number of a {f} is known for 16 rows and subgroups of 32 only"))
}
fn fragment(k: &Kernel, f: Fragment) -> Checked<()> {
    lanes(k)?;
    if !FRAGMENT_SHAPES.contains(&[f.m, f.n, f.k]) {
        return Err(format!("no device multiplies fragments of {} x {} x {}", f.m, f.n, f.k));
    }
    let fits = match (f.role, f.elem) {
        (_, Elem::F64) => f == MmaShape::F64_FMA_CHAIN.fragment(f.role),
        (Role::A | Role::B, elem) => matches!(elem, Elem::F16 | Elem::BF16 | Elem::F32),
        (Role::C, elem) => elem == Elem::F32,
    };
    let [m, n, k] = MmaShape::F64_FMA_CHAIN.shape;
    if fits {
        return Ok(());
    }
    Err(format!("{f}: factors are f16, bf16 or f32, sums are f32; of f64 both are, and {m} x {n} x {k}"))
}

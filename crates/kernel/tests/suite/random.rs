//! Random kernels: valid by construction, with everything that one invocation can do by itself.

use elinvar_core::philox::Stream;
use elinvar_kernel::Kernel;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::interp::{Launch, Memory};
use elinvar_kernel::ir::{Access, Binary, Compare, Constant, Elem, Scalar, Type, Unary};

/// Random choices, and the types of scalars that are among them.
pub struct Dice(Stream, u64, &'static [Scalar]);

/// All but f64.
const NARROW: [Scalar; 6] = [Scalar::Bool, Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64, Scalar::F32];

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Stream { seed, stream: 0x6b65_726e }, 0, &Scalar::ALL)
    }
    /// Choices of kernels without f64.
    pub fn narrow(seed: u64) -> Dice {
        Dice(Stream { seed, stream: 0x6b65_726e }, 0, &NARROW)
    }
    /// What buffers of results hold.
    fn results(&self) -> impl Iterator<Item = Elem> + use<> {
        let scalars = self.2;
        Elem::ALL[2..].iter().copied().filter(move |e| scalars.contains(&e.scalar()))
    }
    fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        self.0.word64(self.1) as usize % n
    }
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
    fn constant(&mut self, s: Scalar) -> Constant {
        let edges = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-40, 1e30, f64::INFINITY, f64::NAN, -2.5, 1e-310];
        let ints = [0, 1, -1, 2, 31, 33, 64, i64::MIN, i64::MAX, i64::from(i32::MIN), 255, -77];
        if s.is_float() { Constant::float(s, self.pick(&edges)) } else { Constant::int(s, self.pick(&ints)) }
    }
}

const UNARY: [Unary; 10] = [
    Unary::Neg,
    Unary::Abs,
    Unary::Sqrt,
    Unary::Floor,
    Unary::Ceil,
    Unary::Trunc,
    Unary::Round,
    Unary::Not,
    Unary::RoundF16,
    Unary::RoundBF16,
];
const BINARY: [Binary; 14] = [
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Div,
    Binary::Rem,
    Binary::Min,
    Binary::Max,
    Binary::And,
    Binary::Or,
    Binary::Xor,
    Binary::Shl,
    Binary::Shr,
    Binary::MulHigh,
    Binary::CopySign,
];
const COMPARE: [Compare; 6] = [Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge];

/// A random kernel. Buffers: one of numbers, then a result for each scalar type but bool.
pub fn kernel(dice: &mut Dice) -> Kernel {
    let k = Builder::new("random", [8, 1, 1]);
    let x = k.buffer("x", Elem::F32, Access::Read);
    let outs: Vec<_> = dice.results().map(|e| (e, k.buffer(&format!("y_{e}"), e, Access::Write))).collect();
    let n = k.param("n", Scalar::U32);
    let i = k.global_id(0);
    let mut pool = vec![i, n, k.load(x, i, 1), k.load(x, (i * 4) & 4, 4), i.lt(n)];
    body(&k, dice, &mut pool, 25, 3);
    for (e, y) in outs {
        if let Some(v) = pool.iter().rev().find(|v| v.ty() == e.scalar().into()) {
            k.store(y, i, *v);
        }
    }
    k.finish()
}

fn body<'k>(k: &'k Builder, dice: &mut Dice, pool: &mut Vec<Val<'k>>, steps: usize, depth: usize) {
    for _ in 0..steps {
        let a = dice.pick(pool);
        let (t, s) = (a.ty(), a.scalar());
        let like: Vec<Val> = pool.iter().copied().filter(|v| v.ty() == t).collect();
        let (b, c) = (dice.pick(&like), dice.pick(&like));
        let new = match dice.below(14) {
            0 => {
                let s = dice.pick(dice.2);
                k.constant(dice.constant(s))
            }
            1 => match dice.pick(&UNARY) {
                op if elinvar_kernel::arith::unary(op, s).is_some() => a.unary(op),
                _ => continue,
            },
            2..=4 => match dice.pick(&BINARY) {
                Binary::CopySign if s.is_float() => a.binary(Binary::CopySign, number(k, b)),
                op if elinvar_kernel::arith::binary(op, s).is_some() => a.binary(op, b),
                _ => continue,
            },
            5 => a.compare(dice.pick(&COMPARE), b),
            6 if s.is_float() => a.fma(b, c),
            7 => {
                let mask = t.of(Scalar::Bool);
                match pool.iter().rev().find(|v| v.ty() == mask) {
                    Some(m) => m.select(a, b),
                    None => continue,
                }
            }
            8 => a.to(dice.pick(dice.2)),
            9 => {
                let to = dice.pick(dice.2);
                if elinvar_kernel::arith::bits(s, to) && s != to {
                    number(k, a).bitcast(to)
                } else {
                    continue;
                }
            }
            10 => match t {
                Type::Vector(_, 1) => a.splat(dice.pick(&[2, 4])),
                _ => a.extract(dice.below(usize::from(t.width())) as u8),
            },
            11 if t.width() == 1 => k.compose(&[a, b]),
            12 if depth > 0 => {
                let Some(cond) = pool.iter().rev().find(|v| v.ty() == Type::BOOL).copied() else { continue };
                let pick = |dice: &mut Dice, pool: &mut Vec<Val<'k>>| {
                    let mut inner = pool.clone();
                    body(k, dice, &mut inner, 5, depth - 1);
                    let like: Vec<Val> = inner.into_iter().filter(|v| v.ty() == t).collect();
                    vec![*like.last().expect("the pool has one")]
                };
                let shared = std::cell::RefCell::new((dice, pool));
                let all = {
                    let branch = || {
                        let (dice, pool) = &mut *shared.borrow_mut();
                        pick(dice, pool)
                    };
                    k.if_else(cond, branch, branch)
                };
                let (d, p) = shared.into_inner();
                p.push(all[0]);
                return body(k, d, p, steps / 2, depth - 1);
            }
            13 if depth > 0 => {
                let end = k.u32(dice.below(4) as u32);
                let start = if dice.below(2) == 0 { k.u32(0) } else { k.local_id(0) };
                let all = k.for_(start, end, k.u32(1), &[a], |i, carried| {
                    let mut inner = pool.clone();
                    inner.extend([i, carried[0]]);
                    body(k, dice, &mut inner, 5, depth - 1);
                    let like: Vec<Val> = inner.into_iter().filter(|v| v.ty() == t).collect();
                    vec![*like.last().expect("the pool has one")]
                });
                all[0]
            }
            _ => continue,
        };
        pool.push(new);
    }
}

/// A value of which the bits may be looked at: 0.5 stands for each NaN, since the bits of those are
/// not specified.
fn number<'k>(k: &'k Builder, v: Val<'k>) -> Val<'k> {
    if !v.scalar().is_float() {
        return v;
    }
    let half = k.constant(Constant::float(v.scalar(), 0.5)).splat(v.ty().width());
    v.compare(Compare::Eq, v).select(v, half)
}

/// Buffers and a launch for a random kernel.
pub fn inputs(dice: &mut Dice) -> (Launch, Vec<Memory>) {
    let numbers = (0..16).map(|_| dice.constant(Scalar::F32).bits).collect();
    let mut all = vec![Memory { elem: Elem::F32, cells: numbers }];
    all.extend(dice.results().map(|e| Memory::zeros(e, 16)));
    (Launch { groups: [2, 1, 1], params: vec![Constant::from(9u32)] }, all)
}

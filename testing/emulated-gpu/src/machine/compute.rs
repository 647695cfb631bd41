//! Arithmetic on columns. Inactive lanes are computed too, and not stored.

use super::matrix::{narrowed, tf32};
use super::numbers::*;
use super::{Fault, Group, Mask, Warp, full};
use crate::inst::*;
use half::f16;

impl<const L: usize> Warp<L> {
    #[inline(always)]
    fn put32(&mut self, to: Column, out: [u32; L]) {
        let (mask, to) = (self.mask(), &mut self.narrow[to as usize]);
        if mask == full(L) {
            *to = out;
        } else {
            for i in 0..L {
                to[i] = if mask >> i & 1 == 1 { out[i] } else { to[i] };
            }
        }
    }
    #[inline(always)]
    fn put64(&mut self, to: Column, out: [u64; L]) {
        let (mask, to) = (self.mask(), &mut self.wide[to as usize]);
        if mask == full(L) {
            *to = out;
        } else {
            for i in 0..L {
                to[i] = if mask >> i & 1 == 1 { out[i] } else { to[i] };
            }
        }
    }
    #[inline(always)]
    fn put_predicate(&mut self, to: Column, out: Mask) {
        let (mask, to) = (self.mask(), &mut self.predicates[to as usize]);
        *to = *to & !mask | out & mask;
    }
    #[inline(always)]
    fn n1(&mut self, to: Column, a: Column, f: impl Fn(u32) -> u32) {
        let a = &self.narrow[a as usize];
        let mut out = [0; L];
        for i in 0..L {
            out[i] = f(a[i]);
        }
        self.put32(to, out);
    }
    #[inline(always)]
    fn n2(&mut self, [to, a, b]: [Column; 3], f: impl Fn(u32, u32) -> u32) {
        let (a, b) = (&self.narrow[a as usize], &self.narrow[b as usize]);
        let mut out = [0; L];
        for i in 0..L {
            out[i] = f(a[i], b[i]);
        }
        self.put32(to, out);
    }
    #[inline(always)]
    fn n3(&mut self, [to, a, b, c]: [Column; 4], f: impl Fn(u32, u32, u32) -> u32) {
        let [a, b, c] = [a, b, c].map(|x| &self.narrow[x as usize]);
        let mut out = [0; L];
        for i in 0..L {
            out[i] = f(a[i], b[i], c[i]);
        }
        self.put32(to, out);
    }
    #[inline(always)]
    fn w1(&mut self, to: Column, a: Column, f: impl Fn(u64) -> u64) {
        let a = &self.wide[a as usize];
        let mut out = [0; L];
        for i in 0..L {
            out[i] = f(a[i]);
        }
        self.put64(to, out);
    }
    #[inline(always)]
    fn w2(&mut self, [to, a, b]: [Column; 3], f: impl Fn(u64, u64) -> u64) {
        let (a, b) = (&self.wide[a as usize], &self.wide[b as usize]);
        let mut out = [0; L];
        for i in 0..L {
            out[i] = f(a[i], b[i]);
        }
        self.put64(to, out);
    }
    #[inline(always)]
    fn w3(&mut self, [to, a, b, c]: [Column; 4], f: impl Fn(u64, u64, u64) -> u64) {
        let [a, b, c] = [a, b, c].map(|x| &self.wide[x as usize]);
        let mut out = [0; L];
        for i in 0..L {
            out[i] = f(a[i], b[i], c[i]);
        }
        self.put64(to, out);
    }
    #[inline(always)]
    fn widen(&mut self, to: Column, a: Column, f: impl Fn(u32) -> u64) {
        let a = &self.narrow[a as usize];
        let mut out = [0; L];
        for i in 0..L {
            out[i] = f(a[i]);
        }
        self.put64(to, out);
    }
    #[inline(always)]
    fn narrow(&mut self, to: Column, a: Column, f: impl Fn(u64) -> u32) {
        let a = &self.wide[a as usize];
        let mut out = [0; L];
        for i in 0..L {
            out[i] = f(a[i]);
        }
        self.put32(to, out);
    }
    #[inline(always)]
    fn compare32(&mut self, [to, a, b]: [Column; 3], f: impl Fn(u32, u32) -> bool) {
        let (a, b) = (&self.narrow[a as usize], &self.narrow[b as usize]);
        let mut out = 0;
        for i in 0..L {
            out |= Mask::from(f(a[i], b[i])) << i;
        }
        self.put_predicate(to, out);
    }
    #[inline(always)]
    fn compare64(&mut self, [to, a, b]: [Column; 3], f: impl Fn(u64, u64) -> bool) {
        let (a, b) = (&self.wide[a as usize], &self.wide[b as usize]);
        let mut out = 0;
        for i in 0..L {
            out |= Mask::from(f(a[i], b[i])) << i;
        }
        self.put_predicate(to, out);
    }

    /// One instruction that is neither a branch nor a barrier.
    #[inline(always)]
    pub fn one(&mut self, inst: Inst, group: &mut Group<'_>) -> Result<(), Fault> {
        match inst {
            Inst::Narrow1(op, to, a) => self.narrow1(op, to, a),
            Inst::Narrow2(op, all) => self.narrow2(op, all),
            Inst::Narrow3(Three::Mad, all) => self.n3(all, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
            Inst::Narrow3(Three::FmaF, all) => self.n3(all, |a, b, c| bits(f(a).mul_add(f(b), f(c)))),
            Inst::Wide1(op, to, a) => self.wide1(op, to, a),
            Inst::Wide2(op, all) => self.wide2(op, all),
            Inst::Wide3(Three::Mad, all) => self.w3(all, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
            Inst::Wide3(Three::FmaF, all) => self.w3(all, |a, b, c| d(a).mul_add(d(b), d(c)).to_bits()),
            Inst::Shift(op, all) => self.shift(op, all),
            Inst::MadWide(signed, [to, a, b, c]) => {
                let (a, b, c) = (&self.narrow[a as usize], &self.narrow[b as usize], &self.wide[c as usize]);
                let mut out = [0; L];
                if signed {
                    for i in 0..L {
                        let product = i64::from(a[i] as i32) * i64::from(b[i] as i32);
                        out[i] = (product as u64).wrapping_add(c[i]);
                    }
                } else {
                    for i in 0..L {
                        out[i] = (u64::from(a[i]) * u64::from(b[i])).wrapping_add(c[i]);
                    }
                }
                self.put64(to, out);
            }
            Inst::Widen(op, to, a) => self.widening(op, to, a),
            Inst::Narrow(op, to, a) => self.narrowing(op, to, a),
            Inst::Pack([to, low, high]) => {
                let (low, high) = (&self.narrow[low as usize], &self.narrow[high as usize]);
                let out = std::array::from_fn(|i| u64::from(low[i]) | u64::from(high[i]) << 32);
                self.put64(to, out);
            }
            Inst::Halves(all) => self.n2(all, |low, high| low & 0xffff | high << 16),
            Inst::HalvesOf(factor, [to, high, low]) => {
                self.n2([to, high, low], |high, low| narrowed(factor, low) | narrowed(factor, high) << 16);
            }
            Inst::Unpack([low, high, whole]) => {
                let whole = self.wide[whole as usize];
                self.put32(low, whole.map(|v| v as u32));
                self.put32(high, whole.map(|v| (v >> 32) as u32));
            }
            Inst::Compare32(how, kind, all) => self.comparison32(how, kind, all),
            Inst::Compare64(how, kind, all) => self.comparison64(how, kind, all),
            Inst::Select32([to, a, b, p]) => {
                let (a, b) = (&self.narrow[a as usize], &self.narrow[b as usize]);
                let p = self.predicates[p as usize];
                let mut out = [0; L];
                for i in 0..L {
                    out[i] = if p >> i & 1 == 1 { a[i] } else { b[i] };
                }
                self.put32(to, out);
            }
            Inst::Select64([to, a, b, p]) => {
                let (a, b) = (&self.wide[a as usize], &self.wide[b as usize]);
                let p = self.predicates[p as usize];
                let mut out = [0; L];
                for i in 0..L {
                    out[i] = if p >> i & 1 == 1 { a[i] } else { b[i] };
                }
                self.put64(to, out);
            }
            Inst::Predicate(op, [to, a, b]) => {
                let (a, b) = (self.predicates[a as usize], self.predicates[b as usize]);
                self.put_predicate(
                    to,
                    match op {
                        Predicate::And => a & b,
                        Predicate::Or => a | b,
                        Predicate::Xor => a ^ b,
                    },
                );
            }
            Inst::NotPredicate(to, a) => self.put_predicate(to, !self.predicates[a as usize]),
            Inst::MovPredicate(to, a) => self.put_predicate(to, self.predicates[a as usize]),
            Inst::Shuffle(butterfly, [to, v, lane]) => {
                self.together("an exchange between lanes")?;
                let (v, lane) = (&self.narrow[v as usize], &self.narrow[lane as usize]);
                let mask = self.mask();
                let mut out = [0; L];
                for i in 0..L {
                    let from = if butterfly { i ^ lane[i] as usize & 31 } else { lane[i] as usize & 31 };
                    // The value of an inactive lane is undefined.
                    out[i] = if mask >> from & 1 == 1 { v[from] } else { 0xdead_beef };
                }
                self.put32(to, out);
            }
            Inst::Route(route, to, v) => {
                let out = self.routed(route, v)?;
                self.put32(to, out);
            }
            Inst::Permute(among, [to, v, bytes]) => {
                let out = self.permuted(among, v, bytes)?;
                self.put32(to, out);
            }
            Inst::Matrix(unit, lists) => self.multiply_wave(unit, lists, group.program)?,
            Inst::Divides32 { signed, all } => self.divides32(signed, all)?,
            Inst::Divides64 { signed, all } => self.divides64(signed, all)?,
            Inst::Amount(below, amount) => self.amount(below, amount)?,
            Inst::Load(access) => self.load(access, group)?,
            Inst::Store(access) => self.store(access, group)?,
            Inst::Atomic(op, space, all, offset) => self.atomic(op, space, all, offset, group)?,
            Inst::Mma(factor, d, a, b, c) => self.mma(factor, d, a, b, c)?,
            Inst::MmaDouble(d, a, b, c) => self.mma_double(&d, &a, &b, &c)?,
            Inst::MmaSmall(d, a, b, c) => self.mma_double(&d, &[a], &[b], &c)?,
            Inst::LoadMatrix { transposed, count, to, address, offset } => {
                self.load_matrix(transposed, count, to, address, offset, group)?;
            }
            Inst::CopyAsync { to, to_offset, from, from_offset, bytes, read } => {
                self.copy_async([to, from], [to_offset, from_offset], bytes, read, group)?;
            }
            Inst::CommitCopies => self.commit_copies()?,
            Inst::WaitCopies(open) => self.wait_copies(open, group)?,
            Inst::SignalInit { .. }
            | Inst::SignalFence
            | Inst::SignalExpect { .. }
            | Inst::FetchBox { .. }
            | Inst::GroupFence
            | Inst::GroupMma { .. }
            | Inst::GroupCommit
            | Inst::GroupWait(_) => self.boxes(inst, group)?,
            Inst::SignalWait { .. } | Inst::Join | Inst::Branch { .. } | Inst::Return | Inst::Barrier => {
                unreachable!("the loop around has seen to these")
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn narrow1(&mut self, op: Narrow1, to: Column, a: Column) {
        let open = self.open;
        match op {
            Narrow1::Mov => self.n1(to, a, |a| a),
            Narrow1::Not => self.n1(to, a, |a| !a),
            Narrow1::Neg => self.n1(to, a, u32::wrapping_neg),
            Narrow1::NegF => self.n1(to, a, |a| a ^ 0x8000_0000),
            Narrow1::AbsF => self.n1(to, a, |a| a & 0x7fff_ffff),
            Narrow1::SqrtNear => self.n1(to, a, |a| near_root(f(a)).to_bits()),
            Narrow1::Exp2F => self.n1(to, a, |a| bits(exp2(f(a)))),
            Narrow1::SqrtF => self.n1(to, a, |a| bits(f(a).sqrt())),
            Narrow1::FloorF => self.n1(to, a, |a| bits(f(a).floor())),
            Narrow1::CeilF => self.n1(to, a, |a| bits(f(a).ceil())),
            Narrow1::TruncF => self.n1(to, a, |a| bits(f(a).trunc())),
            Narrow1::RoundF => self.n1(to, a, |a| bits(f(a).round_ties_even())),
            Narrow1::HalfToF => self.n1(to, a, |a| bits(f16::from_bits(a as u16).to_f32())),
            Narrow1::FToBf16 => self.n1(to, a, |a| narrowed(Factor::BF16, a)),
            Narrow1::FToTf32 => {
                self.n1(to, a, tf32);
            }
            Narrow1::FToHalf => self.n1(to, a, |a| match f(a).is_nan() {
                true => 0x7fff,
                false => u32::from(f16::from_f32(f(a)).to_bits()),
            }),
            Narrow1::Low16 => self.n1(to, a, |a| a & 0xffff),
            // Saturates out of range, NaN gives 0, as Rust's conversions do.
            Narrow1::FToS => self
                .n1(to, a, |a| if open && !fits(f(a).into(), SIGNED32) { OPEN } else { f(a) as i32 as u32 }),
            Narrow1::FToU => {
                self.n1(to, a, |a| if open && !fits(f(a).into(), UNSIGNED32) { OPEN } else { f(a) as u32 })
            }
            Narrow1::SToF => self.n1(to, a, |a| (a as i32 as f32).to_bits()),
            Narrow1::UToF => self.n1(to, a, |a| (a as f32).to_bits()),
        }
    }
    #[inline(always)]
    fn narrow2(&mut self, op: Narrow2, all: [Column; 3]) {
        match op {
            Narrow2::Add => self.n2(all, u32::wrapping_add),
            Narrow2::Sub => self.n2(all, u32::wrapping_sub),
            Narrow2::Mul => self.n2(all, u32::wrapping_mul),
            Narrow2::MulHighS => {
                self.n2(all, |a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32);
            }
            Narrow2::MulHighU => self.n2(all, |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32),
            // The result of a division by zero is unspecified.
            Narrow2::DivS => self.n2(all, |a, b| match b {
                0 => u32::MAX,
                _ => (a as i32).wrapping_div(b as i32) as u32,
            }),
            Narrow2::DivU => self.n2(all, |a, b| a.checked_div(b).unwrap_or(u32::MAX)),
            Narrow2::RemS => self.n2(all, |a, b| match b {
                0 => u32::MAX,
                _ => (a as i32).wrapping_rem(b as i32) as u32,
            }),
            Narrow2::RemU => self.n2(all, |a, b| a.checked_rem(b).unwrap_or(u32::MAX)),
            Narrow2::MinS => self.n2(all, |a, b| (a as i32).min(b as i32) as u32),
            Narrow2::MinU => self.n2(all, u32::min),
            Narrow2::MaxS => self.n2(all, |a, b| (a as i32).max(b as i32) as u32),
            Narrow2::MaxU => self.n2(all, u32::max),
            Narrow2::And => self.n2(all, |a, b| a & b),
            Narrow2::Or => self.n2(all, |a, b| a | b),
            Narrow2::Xor => self.n2(all, |a, b| a ^ b),
            // Amounts beyond the width shift everything out.
            Narrow2::Shl => self.n2(all, |a, b| a.checked_shl(b).unwrap_or(0)),
            Narrow2::ShrS => self.n2(all, |a, b| (a as i32 >> b.min(31)) as u32),
            Narrow2::ShrU => self.n2(all, |a, b| a.checked_shr(b).unwrap_or(0)),
            Narrow2::AddF => self.n2(all, |a, b| bits(f(a) + f(b))),
            Narrow2::SubF => self.n2(all, |a, b| bits(f(a) - f(b))),
            Narrow2::MulF => self.n2(all, |a, b| bits(f(a) * f(b))),
            Narrow2::DivF => self.n2(all, |a, b| bits(f(a) / f(b))),
            Narrow2::MinF => self.n2(all, |a, b| match (f(a), f(b)) {
                (x, y) if x.is_nan() || y.is_nan() => bits(f32::NAN),
                // Of two zeros, the negative one.
                (x, y) if x == y => a | b,
                (x, y) => bits(x.min(y)),
            }),
            Narrow2::MaxF => self.n2(all, |a, b| match (f(a), f(b)) {
                (x, y) if x.is_nan() || y.is_nan() => bits(f32::NAN),
                (x, y) if x == y => a & b,
                (x, y) => bits(x.max(y)),
            }),
        }
    }
    #[inline(always)]
    fn wide1(&mut self, op: Wide1, to: Column, a: Column) {
        // NaN as a 64-bit integer is the sign bit alone.
        let open = self.open;
        let whole = |x: f64, range: Range, y: u64| match x {
            _ if open && !fits(x, range) => OPEN.into(),
            _ if x.is_nan() => 1 << 63,
            _ => y,
        };
        match op {
            Wide1::Mov => self.w1(to, a, |a| a),
            Wide1::Not => self.w1(to, a, |a| !a),
            Wide1::Neg => self.w1(to, a, u64::wrapping_neg),
            Wide1::NegF => self.w1(to, a, |a| a ^ 1 << 63),
            Wide1::AbsF => self.w1(to, a, |a| a & !(1 << 63)),
            Wide1::SqrtF => self.w1(to, a, |a| d(a).sqrt().to_bits()),
            Wide1::SqrtNear => self.w1(to, a, |a| near_root64(d(a)).to_bits()),
            Wide1::FloorF => self.w1(to, a, |a| d(a).floor().to_bits()),
            Wide1::CeilF => self.w1(to, a, |a| d(a).ceil().to_bits()),
            Wide1::TruncF => self.w1(to, a, |a| d(a).trunc().to_bits()),
            Wide1::RoundF => self.w1(to, a, |a| d(a).round_ties_even().to_bits()),
            Wide1::FToS => self.w1(to, a, |a| whole(d(a), SIGNED64, d(a) as i64 as u64)),
            Wide1::FToU => self.w1(to, a, |a| whole(d(a), UNSIGNED64, d(a) as u64)),
            Wide1::SToF => self.w1(to, a, |a| (a as i64 as f64).to_bits()),
            Wide1::UToF => self.w1(to, a, |a| (a as f64).to_bits()),
        }
    }
    #[inline(always)]
    fn wide2(&mut self, op: Wide2, all: [Column; 3]) {
        match op {
            Wide2::Add => self.w2(all, u64::wrapping_add),
            Wide2::Sub => self.w2(all, u64::wrapping_sub),
            Wide2::Mul => self.w2(all, u64::wrapping_mul),
            Wide2::MulHighS => {
                self.w2(all, |a, b| ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64);
            }
            Wide2::MulHighU => self.w2(all, |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64),
            Wide2::DivS => self.w2(all, |a, b| match b {
                0 => u64::MAX,
                _ => (a as i64).wrapping_div(b as i64) as u64,
            }),
            Wide2::DivU => self.w2(all, |a, b| a.checked_div(b).unwrap_or(u64::MAX)),
            Wide2::RemS => self.w2(all, |a, b| match b {
                0 => u64::MAX,
                _ => (a as i64).wrapping_rem(b as i64) as u64,
            }),
            Wide2::RemU => self.w2(all, |a, b| a.checked_rem(b).unwrap_or(u64::MAX)),
            Wide2::MinS => self.w2(all, |a, b| (a as i64).min(b as i64) as u64),
            Wide2::MinU => self.w2(all, u64::min),
            Wide2::MaxS => self.w2(all, |a, b| (a as i64).max(b as i64) as u64),
            Wide2::MaxU => self.w2(all, u64::max),
            Wide2::And => self.w2(all, |a, b| a & b),
            Wide2::Or => self.w2(all, |a, b| a | b),
            Wide2::Xor => self.w2(all, |a, b| a ^ b),
            Wide2::AddF => self.w2(all, |a, b| (d(a) + d(b)).to_bits()),
            Wide2::SubF => self.w2(all, |a, b| (d(a) - d(b)).to_bits()),
            Wide2::MulF => self.w2(all, |a, b| (d(a) * d(b)).to_bits()),
            Wide2::DivF => self.w2(all, |a, b| (d(a) / d(b)).to_bits()),
        }
    }
    #[inline(always)]
    fn shift(&mut self, op: Shift, [to, a, amount]: [Column; 3]) {
        let (a, amount) = (&self.wide[a as usize], &self.narrow[amount as usize]);
        let one = |a: u64, amount: u32| match op {
            Shift::Left => a.checked_shl(amount).unwrap_or(0),
            Shift::RightS => (a as i64 >> amount.min(63)) as u64,
            Shift::RightU => a.checked_shr(amount).unwrap_or(0),
        };
        let out = std::array::from_fn(|i| one(a[i], amount[i]));
        self.put64(to, out);
    }
    #[inline(always)]
    fn widening(&mut self, op: Widen, to: Column, a: Column) {
        let open = self.open;
        let whole = |x: f32, range: Range, y: u64| match x {
            _ if open && !fits(x.into(), range) => OPEN.into(),
            _ if x.is_nan() => 1 << 63,
            _ => y,
        };
        match op {
            Widen::Signed => self.widen(to, a, |a| i64::from(a as i32) as u64),
            Widen::Unsigned => self.widen(to, a, u64::from),
            Widen::FToF => self.widen(to, a, |a| f64::from(f(a)).to_bits()),
            Widen::SToF => self.widen(to, a, |a| f64::from(a as i32).to_bits()),
            Widen::UToF => self.widen(to, a, |a| f64::from(a).to_bits()),
            Widen::FToS => self.widen(to, a, |a| whole(f(a), SIGNED64, f(a) as i64 as u64)),
            Widen::FToU => self.widen(to, a, |a| whole(f(a), UNSIGNED64, f(a) as u64)),
        }
    }
    #[inline(always)]
    fn narrowing(&mut self, op: Narrowing, to: Column, a: Column) {
        let open = self.open;
        match op {
            Narrowing::Low => self.narrow(to, a, |a| a as u32),
            Narrowing::FToF => self.narrow(to, a, |a| bits(d(a) as f32)),
            Narrowing::SToF => self.narrow(to, a, |a| (a as i64 as f32).to_bits()),
            Narrowing::UToF => self.narrow(to, a, |a| (a as f32).to_bits()),
            Narrowing::FToS => {
                self.narrow(to, a, |a| if open && !fits(d(a), SIGNED32) { OPEN } else { d(a) as i32 as u32 })
            }
            Narrowing::FToU => {
                self.narrow(to, a, |a| if open && !fits(d(a), UNSIGNED32) { OPEN } else { d(a) as u32 })
            }
        }
    }
    #[inline(always)]
    fn comparison32(&mut self, how: Compare, kind: Kind, all: [Column; 3]) {
        macro_rules! by {
            ($of:expr) => {
                match how {
                    Compare::Eq => self.compare32(all, |a, b| $of(a) == $of(b)),
                    Compare::Ne => self.compare32(all, |a, b| $of(a) != $of(b)),
                    Compare::Lt => self.compare32(all, |a, b| $of(a) < $of(b)),
                    Compare::Le => self.compare32(all, |a, b| $of(a) <= $of(b)),
                    Compare::Gt => self.compare32(all, |a, b| $of(a) > $of(b)),
                    Compare::Ge => self.compare32(all, |a, b| $of(a) >= $of(b)),
                    Compare::Nan => self.compare32(all, |a, b| f(a).is_nan() || f(b).is_nan()),
                }
            };
        }
        match kind {
            Kind::Signed => by!(|v: u32| v as i32),
            Kind::Unsigned => by!(|v: u32| v),
            Kind::Float => by!(f),
        }
    }
    #[inline(always)]
    fn comparison64(&mut self, how: Compare, kind: Kind, all: [Column; 3]) {
        macro_rules! by {
            ($of:expr) => {
                match how {
                    Compare::Eq => self.compare64(all, |a, b| $of(a) == $of(b)),
                    Compare::Ne => self.compare64(all, |a, b| $of(a) != $of(b)),
                    Compare::Lt => self.compare64(all, |a, b| $of(a) < $of(b)),
                    Compare::Le => self.compare64(all, |a, b| $of(a) <= $of(b)),
                    Compare::Gt => self.compare64(all, |a, b| $of(a) > $of(b)),
                    Compare::Ge => self.compare64(all, |a, b| $of(a) >= $of(b)),
                    Compare::Nan => self.compare64(all, |a, b| d(a).is_nan() || d(b).is_nan()),
                }
            };
        }
        match kind {
            Kind::Signed => by!(|v: u64| v as i64),
            Kind::Unsigned => by!(|v: u64| v),
            Kind::Float => by!(d),
        }
    }
}

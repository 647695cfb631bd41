//! Random calls, good and bad, against a plain model: bytes by address, elements as sets.
//!
//! The model decides by itself whether a call fits. What a call computes it takes from the
//! library's ops of the reference, on copies.

use crate::random::Dice;
use crate::{bytes, numbers, same};
use elinvar_compute::BackendTranspose::{self, ConjTrans, NoTrans, Trans};
use elinvar_compute::{BackendError, BackendResult, BinaryOp, ComputeBackend, ReduceOp, UnaryOp};
use elinvar_core::DType;
use elinvar_ops::{Array, catalogue as op};
use elinvar_reference::{Reference, ReferenceDevice};
use std::collections::{BTreeMap, BTreeSet};

type Host = Array<Reference>;

/// Elements of an operand, as offsets, in the order in which the library's op has them; `None` if
/// there are more than any memory of this test has.
type Places = Option<Vec<usize>>;

struct Model {
    dtype: DType,
    live: BTreeMap<u64, Vec<u8>>,
    freed: Vec<u64>,
}

fn count(sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s)).filter(|&n| n <= 1 << 14)
}
fn row_major(sizes: &[usize]) -> Places {
    if sizes.contains(&0) { Some(vec![]) } else { Some((0..count(sizes)?).collect()) }
}
/// Are there as many elements as a shape may have, zeros left out?
fn addressable(sizes: &[usize]) -> bool {
    let all = sizes.iter().filter(|&&n| n > 0).try_fold(1usize, |n, &s| n.checked_mul(s));
    all.is_some_and(|n| n <= isize::MAX as usize / 16)
}
/// A matrix stored by columns, its elements by rows.
fn by_columns(rows: usize, columns: usize, ld: usize) -> Places {
    if rows == 0 || columns == 0 {
        return Some(vec![]);
    }
    count(&[rows, columns])?;
    let at = |i: usize, j: usize| j.checked_mul(ld).and_then(|n| n.checked_add(i));
    (0..rows).flat_map(|i| (0..columns).map(move |j| at(i, j))).collect()
}

impl Model {
    /// The addresses of elements, if they fit.
    fn addresses(&self, p: u64, places: &Places) -> Option<Vec<u64>> {
        let (places, size) = (places.as_ref()?, self.dtype.size() as u64);
        let Some(&last) = places.iter().max() else { return Some(vec![]) };
        let (start, memory) = self.live.range(..=p).next_back()?;
        let end = (last as u64).checked_mul(size)?.checked_add(p - start)?.checked_add(size)?;
        let fits = p - start < memory.len() as u64 && p.is_multiple_of(size) && end <= memory.len() as u64;
        fits.then(|| places.iter().map(|&i| p + i as u64 * size).collect())
    }
    fn load(&self, addresses: &[u64], shape: &[usize]) -> Host {
        let one = |&a: &u64| {
            let (start, memory) = self.live.range(..=a).next_back().unwrap();
            numbers(self.dtype, &memory[(a - start) as usize..][..self.dtype.size()])[0]
        };
        let wide = Host::from_vec(&ReferenceDevice, addresses.iter().map(one).collect::<Vec<f64>>(), shape);
        wide.unwrap().cast(self.dtype).unwrap()
    }
    fn store(&mut self, addresses: &[u64], y: &Host) {
        for (&a, v) in addresses.iter().zip(y.to_host().unwrap().to_f64_vec()) {
            let (start, memory) = self.live.range_mut(..=a).next_back().unwrap();
            let new = bytes(self.dtype, &[v]);
            memory[(a - start) as usize..][..new.len()].copy_from_slice(&new);
        }
    }
    /// A call of row-major operands: inputs with shapes, and an output that may be an input if
    /// `aliased`.
    fn run(
        &mut self,
        inputs: &[(u64, &[usize])],
        to: (u64, &[usize]),
        aliased: bool,
        f: impl FnOnce(&[Host]) -> Host,
    ) -> bool {
        let at: Option<Vec<_>> = inputs.iter().map(|(p, s)| self.addresses(*p, &row_major(s))).collect();
        let (Some(at), Some(out)) = (at, self.addresses(to.0, &row_major(to.1))) else { return false };
        let set: BTreeSet<_> = out.iter().collect();
        if at.iter().any(|x| !(aliased && *x == out) && x.iter().any(|a| set.contains(a))) {
            return false;
        }
        if !out.is_empty() {
            let x: Vec<Host> = at.iter().zip(inputs).map(|(a, (_, s))| self.load(a, s)).collect();
            self.store(&out, &f(&x));
        }
        true
    }
}

/// Draws calls.
pub struct Player<'a> {
    raw: &'a dyn ComputeBackend,
    model: Model,
    dice: Dice,
}

impl<'a> Player<'a> {
    /// On a backend without memory that anything else uses.
    pub fn new(raw: &'a dyn ComputeBackend, dtype: DType, seed: u64) -> Self {
        Player { raw, model: Model { dtype, live: BTreeMap::new(), freed: vec![] }, dice: Dice::new(seed) }
    }
    /// A pointer, most often into memory.
    fn pointer(&mut self) -> u64 {
        let starts: Vec<(u64, usize)> = self.model.live.iter().map(|(&p, m)| (p, m.len())).collect();
        if starts.is_empty() || self.dice.once_in(25) {
            let freed = self.model.freed.last().copied().unwrap_or(0);
            let odd = self.dice.word();
            return self.dice.pick(&[0, 1, freed, u64::MAX, odd]);
        }
        let (p, len) = self.dice.pick(&starts);
        match self.dice.below(12) {
            0..6 => p,
            6 => p + self.dice.below(len + 2) as u64,
            _ => {
                p + (self.dice.below(len / 8 + 1) / self.model.dtype.size() * self.model.dtype.size()) as u64
            }
        }
    }
    /// A size, most often small.
    fn size(&mut self) -> usize {
        match self.dice.below(40) {
            0 => self.dice.pick(&[usize::MAX, usize::MAX / 8, 1 << 61, 1 << 32]),
            1..4 => 0,
            _ => self.dice.below(5) + 1,
        }
    }
    fn trans(&mut self) -> BackendTranspose {
        self.dice.pick(&[NoTrans, Trans, ConjTrans])
    }
    fn factor(&mut self) -> f64 {
        let any = self.dice.number();
        self.dice.pick(&[0.0, 1.0, 1.0, -1.0, any])
    }

    /// One call. Panics if backend and model do not agree.
    pub fn step(&mut self) {
        match self.dice.below(12) {
            0 | 1 => self.alloc(),
            2 => self.free(),
            3 => self.copy(),
            4 | 5 => self.gemm(),
            6 => self.batched(),
            7 => self.unary(),
            8 => self.binary(),
            9 => self.reduce(),
            10 => self.conv(),
            _ => self.attention(),
        }
    }
    fn agree(&self, call: &str, got: &BackendResult<()>, fits: bool) {
        match got {
            Ok(()) => assert!(fits, "{call}: the model refuses it"),
            Err(BackendError::InvalidArgument(said)) => {
                assert!(!fits, "{call}: the model accepts it, {said}")
            }
            Err(other) => panic!("{call}: {other:?}"),
        }
    }
    fn alloc(&mut self) {
        if self.model.live.len() > 12 {
            return self.free();
        }
        let len = self.dice.pick(&[0, 1, 8, 37, 64, 120, 512, 2048]);
        match self.raw.alloc(len) {
            Ok(p) => {
                assert!(len > 0 && p.is_multiple_of(256) && !self.model.freed.contains(&p));
                assert!(self.model.live.insert(p, vec![0; len]).is_none());
                let v: Vec<f64> = (0..len / self.model.dtype.size()).map(|_| self.dice.number()).collect();
                let bytes = bytes(self.model.dtype, &v);
                self.raw.copy_htod(p, &bytes).unwrap();
                self.model.live.get_mut(&p).unwrap()[..bytes.len()].copy_from_slice(&bytes);
            }
            Err(e) => assert!(len == 0, "{e}"),
        }
    }
    fn free(&mut self) {
        let p = self.pointer();
        let fits = self.model.live.remove(&p).is_some();
        if fits {
            self.model.freed.push(p);
        }
        let got = self.raw.free(p);
        self.agree(&format!("free {p:#x}"), &got, fits);
    }
    /// Bytes to the device: zeros, so that no pattern of bits is a signalling NaN.
    fn copy(&mut self) {
        let (p, len) = (self.pointer(), self.dice.below(20));
        let (dtype, size) = (self.model.dtype, self.model.dtype.size());
        // The bits of a NaN are no result: a part of one must not become a number.
        if let Some((start, all)) = self.model.live.range(..=p).next_back() {
            let from = ((p - start) as usize).min(all.len());
            let end = (from + len).next_multiple_of(size).min(all.len());
            if numbers(dtype, &all[from / size * size..end]).iter().any(|x| x.is_nan()) {
                return;
            }
        }
        let found = self.model.live.range_mut(..=p).next_back();
        let room = found.and_then(|(start, m)| m.get_mut((p - start) as usize..).filter(|m| !m.is_empty()));
        let fits = match room.and_then(|m| m.get_mut(..len)) {
            Some(part) => {
                part.fill(0);
                true
            }
            None => len == 0,
        };
        let got = self.raw.copy_htod(p, &vec![0; len]);
        self.agree(&format!("copy_htod {p:#x} {len}"), &got, fits);
        let got = self.raw.copy_dtoh(&mut vec![0; len], p);
        self.agree(&format!("copy_dtoh {p:#x} {len}"), &got, fits);
    }
    /// What a product does, of one matrix or of a batch: leading dimensions, strides, pointers.
    fn product(
        &mut self,
        [ta, tb]: [BackendTranspose; 2],
        [m, n, k, batch]: [usize; 4],
        [alpha, beta]: [f64; 2],
        [a, b, c]: [(u64, usize, usize); 3],
    ) -> bool {
        let [ar, ac] = if ta.is_transposed() { [k, m] } else { [m, k] };
        let [br, bc] = if tb.is_transposed() { [n, k] } else { [k, n] };
        if [(a.1, ar), (b.1, br), (c.1, m)].iter().any(|&(ld, rows)| ld < rows.max(1)) {
            return false;
        }
        let several = |(_, ld, stride): (u64, usize, usize), rows, columns| -> Places {
            if batch == 0 {
                return Some(vec![]);
            }
            let one = by_columns(rows, columns, ld)?;
            if one.is_empty() {
                return Some(vec![]);
            }
            // One matrix for more of them than any result has.
            let batch = if stride == 0 && batch > 1 << 10 { 1 } else { batch };
            count(&[batch, one.len()])?;
            let at = |i: usize, x: usize| i.checked_mul(stride).and_then(|n| n.checked_add(x));
            (0..batch).flat_map(|i| one.iter().map(move |&x| at(i, x)).collect::<Vec<_>>()).collect()
        };
        let reads = k > 0 && alpha != 0.0;
        let shapes = [[batch, n, m], [batch, k, m], [batch, n, k]];
        if !shapes[..if reads { 3 } else { 1 }].iter().all(|s| addressable(s)) {
            return false;
        }
        // Of a result there is one for each.
        if batch > 1 && c.2 == 0 && m > 0 && n > 0 {
            return false;
        }
        let Some(out) = self.addresses(c.0, &several(c, m, n)) else { return false };
        let set: BTreeSet<u64> = out.iter().copied().collect();
        if set.len() < out.len() {
            return false;
        }
        let (mut left, mut right) = (vec![], vec![]);
        if reads {
            let all = (self.addresses(a.0, &several(a, ar, ac)), self.addresses(b.0, &several(b, br, bc)));
            let (Some(x), Some(y)) = all else { return false };
            if x.iter().chain(&y).any(|a| set.contains(a)) {
                return false;
            }
            (left, right) = (x, y);
        }
        if out.is_empty() {
            return true;
        }
        for i in 0..batch {
            let to = &out[i * m * n..][..m * n];
            let old = self.load(to, &[m, n]);
            let new = if reads {
                let part = |all: &[u64], t: BackendTranspose, rows: usize, columns: usize| {
                    let x = self.load(&all[i * rows * columns..][..rows * columns], &[rows, columns]);
                    if t.is_transposed() { op::transpose(&x, 0, 1).unwrap() } else { x }
                };
                op::addmm(&old, &part(&left, ta, ar, ac), &part(&right, tb, br, bc), beta, alpha).unwrap()
            } else if beta == 0.0 {
                Host::full(&ReferenceDevice, old.shape(), 0i64.into(), self.model.dtype).unwrap()
            } else if beta == 1.0 {
                continue;
            } else {
                let factor = Host::scalar(&ReferenceDevice, beta.into(), self.model.dtype).unwrap();
                op::mul(&old, &factor).unwrap()
            };
            self.model.store(to, &new);
        }
        true
    }
    fn addresses(&self, p: u64, places: &Places) -> Option<Vec<u64>> {
        self.model.addresses(p, places)
    }
    fn load(&self, addresses: &[u64], shape: &[usize]) -> Host {
        self.model.load(addresses, shape)
    }
    fn ld(&mut self, rows: usize) -> usize {
        match self.dice.below(20) {
            0 => self.size(),
            1..6 => rows.max(1).saturating_add(self.dice.below(3)),
            _ => rows.max(1),
        }
    }
    fn gemm(&mut self) {
        let t = [self.trans(), self.trans()];
        let [m, n, k] = [self.size(), self.size(), self.size()];
        let f = [self.factor(), self.factor()];
        let ld = [
            self.ld(if t[0].is_transposed() { k } else { m }),
            self.ld(if t[1].is_transposed() { n } else { k }),
            self.ld(m),
        ];
        let [a, b, c] = ld.map(|ld| (self.pointer(), ld, 0));
        let fits = self.product(t, [m, n, k, 1], f, [a, b, c]);
        let got = self.raw.gemm(t[0], t[1], m, n, k, f[0], a.0, a.1, b.0, b.1, f[1], c.0, c.1);
        self.agree(&format!("gemm {t:?} {m} {n} {k} {f:?} {a:x?} {b:x?} {c:x?}"), &got, fits);
    }
    fn batched(&mut self) {
        let t = [self.trans(), self.trans()];
        let [m, n, k, batch] = [self.size(), self.size(), self.size(), self.size()];
        let f = [self.factor(), self.factor()];
        let [ar, br] = [if t[0].is_transposed() { k } else { m }, if t[1].is_transposed() { n } else { k }];
        let (lda, ldb, ldc) = (self.ld(ar), self.ld(br), self.ld(m));
        let strides = [(m, k), (k, n), (m, n)].map(|(x, y)| match self.dice.below(8) {
            0 => 0,
            1 => self.size(),
            2 => x,
            _ => x.saturating_mul(y),
        });
        let [a, b, c] = [(lda, strides[0]), (ldb, strides[1]), (ldc, strides[2])]
            .map(|(ld, stride)| (self.pointer(), ld, stride));
        let fits = self.product(t, [m, n, k, batch], f, [a, b, c]);
        let got = self.raw.batched_gemm(
            t[0], t[1], m, n, k, f[0], a.0, a.1, a.2, b.0, b.1, b.2, f[1], c.0, c.1, c.2, batch,
        );
        self.agree(&format!("batched_gemm {t:?} {m} {n} {k} {batch} {f:?} {a:x?} {b:x?} {c:x?}"), &got, fits);
    }
    fn unary(&mut self) {
        let (f, p, n) =
            (self.dice.pick(UnaryOp::ALL), self.pointer(), self.size() * self.dice.pick(&[1, 1, 4]).min(1));
        let q = if self.dice.once_in(2) { p } else { self.pointer() };
        let fits = self.model.run(&[(p, &[n])], (q, &[n]), true, |x| {
            match f {
                UnaryOp::Relu => op::relu(&x[0]),
                UnaryOp::Sigmoid => op::sigmoid(&x[0]),
                UnaryOp::Tanh => op::tanh(&x[0]),
                UnaryOp::Exp => op::exp(&x[0]),
                UnaryOp::Log => op::log(&x[0]),
                UnaryOp::Sqrt => op::sqrt(&x[0]),
                UnaryOp::Abs => op::abs(&x[0]),
                UnaryOp::Neg => op::neg(&x[0]),
            }
            .unwrap()
        });
        let got = self.raw.unary(f, p, q, n);
        self.agree(&format!("{f} {p:#x} {q:#x} {n}"), &got, fits);
    }
    fn binary(&mut self) {
        let (f, p, q, n) = (self.dice.pick(BinaryOp::ALL), self.pointer(), self.pointer(), self.size());
        let other = self.pointer();
        let to = self.dice.pick(&[p, q, other]);
        let fits = self.model.run(&[(p, &[n]), (q, &[n])], (to, &[n]), true, |x| {
            match f {
                BinaryOp::Add => op::add(&x[0], &x[1]),
                BinaryOp::Sub => op::sub(&x[0], &x[1]),
                BinaryOp::Mul => op::mul(&x[0], &x[1]),
                BinaryOp::Div => op::div(&x[0], &x[1]),
                BinaryOp::Max => op::maximum(&x[0], &x[1]),
                BinaryOp::Min => op::minimum(&x[0], &x[1]),
            }
            .unwrap()
        });
        let got = self.raw.binary(f, p, q, to, n);
        self.agree(&format!("{f} {p:#x} {q:#x} {to:#x} {n}"), &got, fits);
    }
    fn reduce(&mut self) {
        let (f, p, q) = (self.dice.pick(ReduceOp::ALL), self.pointer(), self.pointer());
        let shape: Vec<usize> = (0..self.dice.below(4)).map(|_| self.size()).collect();
        let axis = self.dice.below(shape.len() + 1);
        let fits = axis < shape.len()
            && addressable(&shape)
            && !(shape[axis] == 0 && matches!(f, ReduceOp::Max | ReduceOp::Min))
            && {
                let mut to = shape.clone();
                to[axis] = 1;
                let dims = [axis as isize];
                self.model.run(&[(p, &shape)], (q, &to), false, |x| {
                    match f {
                        ReduceOp::Sum => op::sum(&x[0], Some(&dims), true),
                        ReduceOp::Mean => op::mean(&x[0], Some(&dims), true),
                        ReduceOp::Max => op::amax(&x[0], Some(&dims), true),
                        ReduceOp::Min => op::amin(&x[0], Some(&dims), true),
                    }
                    .unwrap()
                })
            };
        let got = self.raw.reduce(f, p, q, &shape, axis);
        self.agree(&format!("{f} {p:#x} {q:#x} {shape:?} {axis}"), &got, fits);
    }
    fn conv(&mut self) {
        let [n, c, k] = [0; 3].map(|_| self.dice.below(3));
        let [h, w, r, s] = [0; 4].map(|_| self.dice.below(4));
        let (stride, padding) =
            ([0; 2].map(|_| self.dice.pick(&[0, 1, 1, 1, 2])), [0; 2].map(|_| self.dice.pick(&[0, 0, 1, 2])));
        let (p, q, to) = (self.pointer(), self.pointer(), self.pointer());
        let out = |n: usize, taps: usize, i: usize| {
            let padded = n + 2 * padding[i];
            (taps > 0 && taps <= padded && stride[i] > 0).then(|| (padded - taps) / stride[i] + 1)
        };
        let (oh, ow) = (out(h, r, 0), out(w, s, 1));
        let odd = usize::from(self.dice.once_in(20));
        let (x, y) = ([n, c, h, w], [k, c + usize::from(self.dice.once_in(20)), r, s]);
        let z = [n, k, oh.unwrap_or(1) + odd, ow.unwrap_or(1)];
        let fits = odd == 0 && y[1] == c && oh.is_some() && ow.is_some() && {
            self.model.run(&[(p, &x), (q, &y)], (to, &z), false, |v| {
                op::conv2d(&v[0], &v[1], None, &stride, &padding.into(), &[1], 1).unwrap()
            })
        };
        let got = self.raw.conv2d_forward(p, &x, q, &y, to, &z, &stride, &padding);
        self.agree(
            &format!("conv {p:#x} {x:?} {q:#x} {y:?} {to:#x} {z:?} {stride:?} {padding:?}"),
            &got,
            fits,
        );
    }
    fn attention(&mut self) {
        let [b, h, l, s, d] = [2, 2, 4, 4, 3].map(|n| self.dice.below(n + 1));
        let (p, q, v, o) = (self.pointer(), self.pointer(), self.pointer(), self.pointer());
        let (scale, causal) = (self.dice.number(), self.dice.once_in(2));
        let (x, y) = ([b, h, l, d], [b, h, s, d]);
        let fits = self.model.run(&[(p, &x), (q, &y), (v, &y)], (o, &x), false, |all| {
            let seen: Vec<bool> = (0..l * s).map(|i| i % s + l <= i / s + s).collect();
            let mask = Host::from_vec(&ReferenceDevice, seen, &[l, s]).unwrap();
            let mask = Some(&mask).filter(|_| causal && l != s);
            let causal = causal && l == s;
            op::scaled_dot_product_attention(&all[0], &all[1], &all[2], mask, causal, Some(scale), false)
                .unwrap()
        });
        let got = self.raw.attention(p, q, v, o, b, h, l, s, d, scale, causal);
        self.agree(&format!("attention {p:#x} {q:#x} {v:#x} {o:#x} {x:?} {s} {scale} {causal}"), &got, fits);
    }
    /// Frees what is left.
    pub fn end(self) {
        self.model.live.keys().for_each(|&p| self.raw.free(p).unwrap());
    }
    /// That all memory is what the model has.
    pub fn compare(&self) {
        for (&p, want) in &self.model.live {
            let mut got = vec![0; want.len()];
            self.raw.copy_dtoh(&mut got, p).unwrap();
            let whole = want.len() / self.model.dtype.size() * self.model.dtype.size();
            let (x, y) = (numbers(self.model.dtype, &got), numbers(self.model.dtype, want));
            assert!(same(&x, &y) && got[whole..] == want[whole..], "memory at {p:#x}\n{x:?}\n{y:?}");
        }
    }
}

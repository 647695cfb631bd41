//! Interpreter: what invocations do together (barriers, shuffles, tensor core fragments).

use super::{Checked, Machine, Problem};
use crate::arith;
use crate::interp::race::AccessKind;
use crate::ir::{Elem, Fragment, FragmentLayout, Op, Place, Role, Type, Value};

impl Machine<'_> {
    /// An instruction that the whole workgroup reaches.
    pub(super) fn collective(&mut self, op: &Op, r: Value, lanes: &[usize]) -> Checked {
        let checked = "the verifier has seen to it";
        match op {
            Op::Barrier => {
                self.all_here(lanes)?;
                self.epoch += 1;
            }
            Op::CpAsyncCommit => {
                self.all_here(lanes)?;
                self.cp_async_commit();
            }
            Op::CpAsyncWait(open) => {
                self.all_here(lanes)?;
                self.cp_async_wait(usize::from(*open));
            }
            Op::Shuffle(v, lane) => {
                self.all_here(lanes)?;
                let size = self.subgroup();
                let from = self.slot(*lane).to_vec();
                self.exchange(r, *v, |l| l / size * size + from[l] as usize % size);
            }
            Op::Broadcast(v, lane) => {
                self.all_here(lanes)?;
                let size = self.subgroup();
                self.exchange(r, *v, |l| l / size * size + usize::from(*lane));
            }
            Op::Reduce(op, v) => {
                self.all_here(lanes)?;
                let f = arith::reduce(*op, self.scalar(*v)).expect(checked);
                let (mut out, w, size) = (self.take_buffer(r), self.width(r), self.subgroup());
                let x = self.slot(*v);
                for first in (0..self.n).step_by(size) {
                    for c in 0..w {
                        let all = (first + 1..first + size).fold(x[first * w + c], |a, l| f(a, x[l * w + c]));
                        (first..first + size).for_each(|l| out[l * w + c] = all);
                    }
                }
                self.put(r, out);
            }
            Op::FragmentLoad(f, layout, p, at, stride) => {
                self.all_here(lanes)?;
                let (decode, rounded) = (arith::decode(self.memory(*p).elem), factor(*f));
                let (rows, columns) = f.shape();
                let mut out = Vec::new();
                for first in (0..self.n).step_by(self.subgroup()) {
                    for (i, j) in cells(rows, columns) {
                        let at = self.fragment_cell(*layout, *p, [*at, *stride], first, [i, j])?;
                        self.touch(*p, at, first, AccessKind::Load)?;
                        out.push(rounded(decode(self.memory(*p).cells[at])));
                    }
                }
                self.put(r, out);
            }
            Op::FragmentFill(f, v) => {
                self.all_here(lanes)?;
                let (rows, columns) = f.shape();
                let (x, rounded) = (self.slot(*v), factor(*f));
                let firsts = (0..self.n).step_by(self.subgroup());
                let out = firsts.flat_map(|l| std::iter::repeat_n(rounded(x[l]), rows * columns)).collect();
                self.put(r, out);
            }
            Op::FragmentMulAdd(a, b, c) => {
                self.all_here(lanes)?;
                self.is_done(*c)?;
                let Type::Fragment(Fragment { m, n, k, elem, .. }) = self.kernel.ty(*c) else {
                    unreachable!("{checked}")
                };
                let (m, n, k) = (usize::from(m), usize::from(n), usize::from(k));
                let fma = arith::fma(elem.scalar(), true).expect(checked);
                let (a, b, c) = (self.slot(*a), self.slot(*b), self.slot(*c));
                let mut out = Vec::new();
                for g in 0..self.n / self.subgroup() {
                    for (i, j) in cells(m, n) {
                        let sum = c[g * m * n + i * n + j];
                        let terms = (0..k).map(|t| (a[g * m * k + i * k + t], b[g * k * n + t * n + j]));
                        out.push(terms.fold(sum, |s, (a, b)| fma(a, b, s)));
                    }
                }
                self.put(r, out);
            }
            Op::FragmentExtract(v, i) => {
                self.all_here(lanes)?;
                self.is_done(*v)?;
                let Type::Fragment(f) = self.kernel.ty(*v) else { unreachable!("{checked}") };
                let (rows, columns) = f.shape();
                let (mut out, x) = (self.take_buffer(r), self.slot(*v));
                for l in 0..self.n {
                    for (c, (row, column)) in numbers_of(l).into_iter().enumerate() {
                        let first = l / 32 * rows * columns + 8 * usize::from(*i);
                        out[l * 4 + c] = x[first + row * columns + column];
                    }
                }
                self.put(r, out);
            }
            Op::FragmentCompose(f, all) => {
                self.all_here(lanes)?;
                let (rows, columns) = f.shape();
                let (encode, decode) = (arith::encode(f.elem), arith::decode(f.elem));
                let mut out = vec![0; self.n / 32 * rows * columns];
                for (i, &v) in all.iter().enumerate() {
                    let x = self.slot(v);
                    for l in 0..self.n {
                        for (c, (row, column)) in numbers_of(l).into_iter().enumerate() {
                            let first = l / 32 * rows * columns + 8 * i;
                            out[first + row * columns + column] = decode(encode(x[l * 4 + c]));
                        }
                    }
                }
                self.put(r, out);
            }
            Op::FragmentStore(layout, p, at, stride, v) => {
                self.all_here(lanes)?;
                self.is_done(*v)?;
                let Type::Fragment(f) = self.kernel.ty(*v) else { unreachable!("{checked}") };
                let (rows, columns) = f.shape();
                let encode = arith::encode(self.memory(*p).elem);
                for (g, first) in (0..self.n).step_by(self.subgroup()).enumerate() {
                    for (i, j) in cells(rows, columns) {
                        let at = self.fragment_cell(*layout, *p, [*at, *stride], first, [i, j])?;
                        self.touch(*p, at, first, AccessKind::Store)?;
                        let x = encode(self.slot(*v)[g * rows * columns + i * columns + j]);
                        self.memory_mut(*p).cells[at] = x;
                    }
                }
            }
            _ => unreachable!("not reached together"),
        }
        Ok(())
    }

    fn exchange(&mut self, r: Value, v: Value, from: impl Fn(usize) -> usize) {
        let (mut out, w) = (self.take_buffer(r), self.width(r));
        let x = self.slot(v);
        for l in 0..self.n {
            let f = from(l);
            out[l * w..(l + 1) * w].copy_from_slice(&x[f * w..(f + 1) * w]);
        }
        self.put(r, out);
    }
    pub(super) fn all_here(&self, lanes: &[usize]) -> Checked {
        if lanes.len() == self.n {
            return Ok(());
        }
        let what = format!("only {} of {} invocations come here together", lanes.len(), self.n);
        Err(Problem { lane: lanes[0], what })
    }

    fn fragment_cell(
        &self,
        layout: FragmentLayout,
        p: Place,
        [at, stride]: [Value; 2],
        lane: usize,
        [i, j]: [usize; 2],
    ) -> Result<usize, Problem> {
        let stride = self.index(stride, lane);
        let step = match layout {
            FragmentLayout::RowMajor => i as i128 * stride + j as i128,
            FragmentLayout::ColumnMajor => j as i128 * stride + i as i128,
        };
        let (at, len) = (self.index(at, lane) + step, self.memory(p).cells.len());
        if at < 0 || at >= len as i128 {
            return Err(Problem { lane, what: format!("index {at} of {len}, in a fragment") });
        }
        Ok(at as usize)
    }
}

/// The row and column of each number that an invocation has of eight columns.
fn numbers_of(invocation: usize) -> [(usize, usize); 4] {
    let (g, t) = (invocation % 32 / 4, 2 * (invocation % 4));
    [(g, t), (g, t + 1), (g + 8, t), (g + 8, t + 1)]
}

/// How a number goes into a fragment.
fn factor(f: Fragment) -> arith::UnaryFn {
    match (f.role, f.elem) {
        (Role::A | Role::B, Elem::F32) => arith::tf32,
        (Role::A | Role::B | Role::C, _) => |x| x,
    }
}

fn cells(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |i| (0..columns).map(move |j| (i, j)))
}

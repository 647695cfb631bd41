//! Interpreter: loads, stores, atomics; bounds and races.

use super::{Checked, Machine, Problem};
use crate::arith;
use crate::interp::Memory;
use crate::interp::race::AccessKind;
use crate::ir::{Inst, Op, Place, Scalar, Value};

impl Machine<'_> {
    /// A load, a store or an atomic.
    pub(super) fn access(&mut self, inst: &Inst, r: Value, lanes: &[usize]) -> Checked {
        let checked = "the verifier has seen to it";
        match &inst.op {
            Op::Load(p, at, w) => {
                let (mut out, w) = (self.take_buffer(r), usize::from(*w));
                let decode = arith::decode(self.memory(*p).elem);
                for &l in lanes {
                    let first = self.reach(*p, *at, l, w, w)?;
                    for i in 0..w {
                        self.touch(*p, first + i, l, AccessKind::Load)?;
                        out[l * w + i] = decode(self.memory(*p).cells[first + i]);
                    }
                }
                self.put(r, out);
            }
            Op::Store(p, at, v) => {
                let w = self.width(*v);
                let encode = arith::encode(self.memory(*p).elem);
                for &l in lanes {
                    let first = self.reach(*p, *at, l, w, w)?;
                    for i in 0..w {
                        self.touch(*p, first + i, l, AccessKind::Store)?;
                        let x = encode(self.slot(*v)[l * w + i]);
                        self.memory_mut(*p).cells[first + i] = x;
                    }
                }
            }
            Op::Atomic(op, p, at, v) => {
                let f = arith::atomic(*op, self.scalar(*v)).expect(checked);
                let mut out = self.take_buffer(r);
                for &l in lanes {
                    let at = self.reach(*p, *at, l, 1, 1)?;
                    self.touch(*p, at, l, AccessKind::Atomic)?;
                    let old = self.memory(*p).cells[at];
                    self.memory_mut(*p).cells[at] = f(old, self.slot(*v)[l]);
                    out[l] = old;
                }
                self.put(r, out);
            }
            _ => unreachable!("not an access of memory"),
        }
        Ok(())
    }

    pub(super) fn memory(&self, p: Place) -> &Memory {
        match p {
            Place::Buffer(i) => &self.buffers[i as usize],
            Place::Shared(i) => &self.shared[i as usize],
        }
    }
    pub(super) fn memory_mut(&mut self, p: Place) -> &mut Memory {
        match p {
            Place::Buffer(i) => &mut self.buffers[i as usize],
            Place::Shared(i) => &mut self.shared[i as usize],
        }
    }
    /// An index as a signed number.
    pub(super) fn index(&self, v: Value, lane: usize) -> i128 {
        let x = self.slot(v)[lane];
        match self.scalar(v) {
            Scalar::I32 => i128::from(x as u32 as i32),
            Scalar::I64 => i128::from(x as i64),
            Scalar::U32 | Scalar::U64 | Scalar::Bool | Scalar::F32 | Scalar::F64 => i128::from(x),
        }
    }
    /// The first of `w` elements that are in memory, at a multiple of `aligned`.
    pub(super) fn reach(
        &self,
        p: Place,
        at: Value,
        lane: usize,
        w: usize,
        aligned: usize,
    ) -> Result<usize, Problem> {
        let (at, len) = (self.index(at, lane), self.memory(p).cells.len());
        if at < 0 || at + w as i128 > len as i128 {
            return Err(Problem { lane, what: format!("index {at} (and {w} elements) of {len}") });
        }
        if !(at as usize).is_multiple_of(aligned) {
            return Err(Problem { lane, what: format!("index {at} is no multiple of {aligned}") });
        }
        Ok(at as usize)
    }
    /// Notes a touch; a race, or a load of shared memory that holds nothing, is a problem.
    pub(super) fn touch(&mut self, p: Place, at: usize, lane: usize, how: AccessKind) -> Checked {
        let who = self.who(lane);
        let trace = match p {
            Place::Buffer(i) => match self.traces[i as usize].get_mut(at) {
                Some(t) => t,
                // This buffer is read-only.
                None => return Ok(()),
            },
            Place::Shared(i) => &mut self.shared_traces[i as usize][at],
        };
        let what = if matches!(p, Place::Shared(_)) && how != AccessKind::Store && !trace.stored() {
            Some("loads shared memory to which nothing was stored")
        } else {
            trace.touch(how, who)
        };
        match what {
            None => Ok(()),
            Some(what) => Err(Problem { lane, what: format!("element {at}: {what}") }),
        }
    }
}

//! When gradients go to other workers, and in which pieces: the plan of a step.
//!
//! It is made from the model, the settings and the kind of transport alone, which all workers have
//! in common: so all send the same pieces in the same order. No plan changes a bit of a sum.

use elinvar_core::DType;
use std::fmt;

/// Bytes of a bucket of gradients unless a run says otherwise: PyTorch's number.
pub const BUCKET_BYTES: usize = 25 << 20;
/// Bytes of the first bucket at most, as in PyTorch: the sooner it is full, the more of the pass is
/// left to hide it.
pub const FIRST_BUCKET_BYTES: usize = 1 << 20;

/// What the plan depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Problem<'p> {
    pub workers: usize,
    /// May the group be called from another thread than the one that made it?
    pub any_thread: bool,
    /// Do shards sum over all workers within a pass? Their calls would mix with the buckets'.
    pub side_by_side: bool,
    /// Bytes of a bucket.
    pub bytes: usize,
    /// The dtype and the number of elements of each parameter's sum; None if it is frozen.
    pub params: &'p [Option<(DType, usize)>],
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// All in one when the passes are done.
    Behind(Why),
    /// Each as soon as its gradients are final, in this order.
    Meanwhile(Vec<Bucket>),
}

/// Why nothing is sent before the passes are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    OneWorker,
    NotAsked,
    OneThread,
    SideBySide,
}

/// Parameters of one dtype, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bucket(pub Vec<usize>);

/// The plan of a step.
pub(super) fn sending(p: Problem<'_>) -> Sending {
    let why = [
        (p.workers == 1, Why::OneWorker),
        (p.bytes == 0, Why::NotAsked),
        (!p.any_thread, Why::OneThread),
        (p.side_by_side, Why::SideBySide),
    ];
    if let Some((_, why)) = why.into_iter().find(|(is_so, _)| *is_so) {
        return Sending::Behind(why);
    }
    Sending::Meanwhile(buckets(p.params, p.bytes))
}

/// From the last parameter, whose gradient comes first, to the first one. A bucket is full when it
/// has as many bytes; a parameter is not cut.
fn buckets(params: &[Option<(DType, usize)>], bytes: usize) -> Vec<Bucket> {
    /// A bucket that is being filled.
    struct Open {
        dtype: DType,
        bytes: usize,
        most: usize,
        params: Vec<usize>,
    }
    let full = |open: &mut Open| {
        let mut params = std::mem::take(&mut open.params);
        params.reverse();
        (open.bytes, open.most) = (0, bytes);
        Bucket(params)
    };
    let (mut all, mut each): (Vec<Bucket>, Vec<Open>) = (vec![], vec![]);
    for (i, param) in params.iter().enumerate().rev() {
        let Some((dtype, numel)) = *param else { continue };
        let place = each.iter().position(|open| open.dtype == dtype).unwrap_or_else(|| {
            each.push(Open { dtype, bytes: 0, most: FIRST_BUCKET_BYTES.min(bytes), params: vec![] });
            each.len() - 1
        });
        let open = &mut each[place];
        open.params.push(i);
        open.bytes += numel * dtype.size();
        if open.bytes >= open.most {
            all.push(full(open));
        }
    }
    all.extend(each.iter_mut().filter(|open| !open.params.is_empty()).map(full));
    all
}

impl fmt::Display for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            Sending::Meanwhile(buckets) => {
                return write!(f, "sent in {} buckets while the backward pass goes on", buckets.len());
            }
            Sending::Behind(Why::OneWorker) => "there is one worker",
            Sending::Behind(Why::NotAsked) => "buckets of 0 bytes are asked for",
            Sending::Behind(Why::OneThread) => "the MPI library takes calls from one thread only",
            Sending::Behind(Why::SideBySide) => "layers sum over all shards within the passes",
        };
        write!(f, "sent behind the backward passes: {why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: &[Option<(DType, usize)>] = &[Some((DType::F32, 3)), None, Some((DType::F32, 1))];

    #[test]
    fn what_keeps_gradients_back() {
        let plain =
            Problem { workers: 2, any_thread: true, side_by_side: false, bytes: BUCKET_BYTES, params: SOME };
        let rows = [
            (Problem { workers: 1, ..plain }, Sending::Behind(Why::OneWorker)),
            (Problem { bytes: 0, ..plain }, Sending::Behind(Why::NotAsked)),
            (Problem { any_thread: false, ..plain }, Sending::Behind(Why::OneThread)),
            (Problem { side_by_side: true, ..plain }, Sending::Behind(Why::SideBySide)),
            (plain, Sending::Meanwhile(vec![Bucket(vec![0, 2])])),
        ];
        for (problem, want) in rows {
            assert_eq!(sending(problem), want, "{problem:?}");
        }
        assert_eq!(sending(plain).to_string(), "sent in 1 buckets while the backward pass goes on");
    }

    #[test]
    fn buckets_are_filled_from_the_last_parameter() {
        let f = |n: usize| Some((DType::F32, n));
        let d = |n: usize| Some((DType::F64, n));
        // In bytes, what there is, and the buckets in the order in which they go.
        type Row<'r> = (usize, &'r [Option<(DType, usize)>], &'r [&'r [usize]]);
        const FIRST: usize = FIRST_BUCKET_BYTES;
        let rows: [Row<'_>; 7] = [
            (8, &[], &[]),
            (8, &[None, None], &[]),
            (8, &[f(1), f(1), f(1), f(1), f(1)], &[&[3, 4], &[1, 2], &[0]]),
            (8, &[f(1), f(9), f(1), f(0)], &[&[1, 2, 3], &[0]]),
            // Each dtype has its own; what is left goes in the order in which they began.
            (16, &[d(1), f(1), d(2), f(1)], &[&[2], &[1, 3], &[0]]),
            (usize::MAX, &[f(1), None, f(1)], &[&[0, 2]]),
            // The first is smaller.
            (4 * FIRST, &[f(FIRST), f(FIRST / 2), f(FIRST / 4), f(1)], &[&[2, 3], &[0, 1]]),
        ];
        for (bytes, params, want) in rows {
            let got = buckets(params, bytes);
            assert_eq!(got.iter().map(|b| &b.0[..]).collect::<Vec<_>>(), want, "{bytes} {params:?}");
        }
    }
}

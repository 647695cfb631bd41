//! Sort and top-k of rows: elements become integer keys of the same order, with their index in the
//! low half, so that keys are distinct and an unstable sort is stable.
//!
//! Many 32-bit ranks are sorted by radix sort ([`radix`]); so are i64 whose range is less than
//! 2^32. Few of many are selected (top-k) before sorting.

mod keys;
mod merge;
mod network;
mod plan;
mod radix;

use crate::CpuDevice;
use crate::elementwise::cast::cast_halves;
use crate::elementwise::convert;
use crate::machine::Machine;
use crate::reduce::source::{StagedView, row_major_copy, staged};
use crate::runtime::memory::{PooledData, filled};
use crate::runtime::parallel::{for_each_piece, try_for_each_piece};
use crate::view::View;
use elinvar_core::explain::explain;
use elinvar_core::host;
use elinvar_core::{DType, Error, HostData, HostVec, Layout, Result, float8};
use elinvar_simd::isa::{Isa, Kernel, dispatch_formula};
use keys::{Rank, SortElement, keys_of};
use plan::{EXTRA_CANDIDATES, RowTasks, SortPlan, SortProblem, TASK_ELEMENTS};
use radix::SortKey;

/// Sorts each row along the last axis, stable, also when descending: the `first` values of each,
/// and where they came from.
pub(crate) fn sort(
    d: &CpuDevice,
    x: &View<'_>,
    descending: bool,
    first: usize,
) -> Result<(HostData, HostData)> {
    fn typed<T: SortElement>(
        _: &[T],
        d: &CpuDevice,
        x: &View<'_>,
        down: bool,
        first: usize,
    ) -> Result<(HostData, HostData)> {
        let n = x.shape().last().copied().unwrap_or(1);
        if u32::try_from(n).is_err() {
            return Err(Error::argument(format!(
                "sort: a row has {n} elements; the CPU sorts rows of less than 2^32"
            )));
        }
        let copy = row_major_copy::<T>(d, "a sort", x)?;
        let rows = SortRows { n, count: x.shape().numel() / n.max(1), first, down };
        let (values, places) = rows.sorted::<T>(d, &staged("a sort", x, &copy)?)?;
        Ok((T::wrap(values), HostData::I64(places)))
    }
    match x.buffer {
        HostData::F32(v) => typed(v, d, x, descending, first),
        HostData::F64(v) => typed(v, d, x, descending, first),
        HostData::F16(v) => typed(v, d, x, descending, first),
        HostData::BF16(v) => typed(v, d, x, descending, first),
        HostData::I64(v) => typed(v, d, x, descending, first),
        HostData::I32(v) => typed(v, d, x, descending, first),
        HostData::U8(v) => typed(v, d, x, descending, first),
        HostData::Bool(v) => typed(v, d, x, descending, first),
        float8!(HostData) => {
            // As the f32 that they are: storing those rounds nothing.
            let wide = PooledData::new(cast_halves(d, x, DType::F32)?);
            let layout = Layout::contiguous(x.shape().clone());
            let wide = View { buffer: &wide, layout: &layout, dtype: DType::F32 };
            let (values, places) = sort(d, &wide, descending, first)?;
            let HostData::F32(values) = values else { unreachable!("f32 was sorted") };
            Ok((convert::stored(d, values, x.buffer.dtype())?, places))
        }
    }
}

/// Rows to be sorted.
#[derive(Clone, Copy)]
struct SortRows {
    /// Elements of each.
    n: usize,
    count: usize,
    /// How many of each are wanted.
    first: usize,
    /// The largest first?
    down: bool,
}

impl SortRows {
    fn sorted<T: SortElement>(
        self,
        d: &CpuDevice,
        x: &StagedView<'_, T>,
    ) -> Result<(HostVec<T>, HostVec<i64>)> {
        let SortRows { n, count, first, down } = self;
        let plan = plan::plan(SortProblem { n, rows: count, first }, &Machine::of(d));
        explain(|| format!("sort {count} rows of {n}, the first {first} -> {plan:?}"));
        let (selects, tasks) = match plan {
            SortPlan::Empty => return Ok((filled(0, T::ZERO)?, filled(0, 0i64)?)),
            SortPlan::Network => {
                return network::sort(d, [n, count, first], down, &|row, rows, sort| {
                    let len = rows * n;
                    let mut buffer = filled(if x.is_in_place(row * n, len) { 0 } else { len }, T::ZERO)?;
                    sort(d.isa(), x.block(d.isa(), row * n, len, len, &mut buffer));
                    Ok(())
                });
            }
            SortPlan::Rows { selects, tasks } => (selects, tasks),
        };
        let (mut values, mut places) = (filled(count * first, T::ZERO)?, filled(count * first, 0i64)?);
        let shared = tasks == RowTasks::SharedRows;
        let one = |row: usize, values: &mut [T], places: &mut [i64]| {
            let mut buffer = filled(if x.is_in_place(row * n, n) { 0 } else { n }, T::ZERO)?;
            let x = x.block(d.isa(), row * n, n, n, &mut buffer);
            if selects {
                let keys = self.top_k::<T>(d, x, shared)?;
                write(d, shared, x, values, places, &keys[..]);
            } else if let Some(keys) = T::narrow_keys(d, x, self.down, shared)? {
                write(d, shared, x, values, places, &all_sorted::<i64>(d, keys, shared)?);
            } else {
                let keys = keys_of::<T::SortKey>(d, n, shared, &|place| x[place].rank(self.down))?;
                write(d, shared, x, values, places, &all_sorted::<T::SortKey>(d, keys, shared)?);
            }
            Ok::<(), Error>(())
        };
        let mut all = host::with_capacity(count)?;
        all.extend(values.chunks_mut(first).zip(places.chunks_mut(first)).enumerate());
        match tasks {
            RowTasks::SharedRows => {
                all.iter_mut().try_for_each(|(row, (values, places))| one(*row, values, places))?;
            }
            RowTasks::WholeRows { rows_per_task, ns } => {
                try_for_each_piece(d, &mut all, rows_per_task, ns, &|_, part| {
                    part.iter_mut().try_for_each(|(row, (values, places))| one(*row, values, places))
                })?;
            }
        }
        drop(all);
        Ok((values, places))
    }
    /// The keys of a row that are wanted, in order, and perhaps others behind them.
    fn top_k<T: SortElement>(self, d: &CpuDevice, x: &[T], shared: bool) -> Result<Vec<T::SortKey>> {
        let SortRows { n, first, down, .. } = self;
        let mut keys = if shared {
            let part = n.div_ceil(2 * d.threads()).max(8 * first);
            let mut parts = host::with_capacity(n.div_ceil(part))?;
            parts.extend((0..n).step_by(part).map(|at| (at, Vec::new())));
            try_for_each_piece(d, &mut parts, 1, part as f64, &|_, parts| {
                for (at, keys) in parts {
                    *keys = k_least(d.isa(), &x[*at..n.min(*at + part)], *at, first, down)?;
                }
                Ok(())
            })?;
            parts.into_iter().flat_map(|(_, keys)| keys).collect()
        } else {
            k_least(d.isa(), x, 0, first, down)?
        };
        keys.sort_unstable();
        Ok(keys)
    }
}

/// Keys whose places ascend, in order.
fn all_sorted<K: SortKey>(d: &CpuDevice, mut keys: K::Keys, shared: bool) -> Result<K::Keys> {
    if shared {
        return merge::sort::<K>(d, keys);
    }
    K::sort(&mut keys)?;
    Ok(keys)
}

/// Writes the elements of a row that the first keys name, and their places.
fn write<T: SortElement, K: SortKey>(
    d: &CpuDevice,
    shared: bool,
    x: &[T],
    values: &mut [T],
    places: &mut [i64],
    keys: &[K],
) {
    if !shared {
        for ((value, place), key) in values.iter_mut().zip(places).zip(keys) {
            let i = key.place();
            (*value, *place) = (x[i], i as i64);
        }
        return;
    }
    for_each_piece(d, places, TASK_ELEMENTS, 1.0, &|from, places| {
        places.iter_mut().zip(&keys[from..]).for_each(|(place, key)| *place = key.place() as i64);
    });
    // They come from anywhere.
    for_each_piece(d, values, TASK_ELEMENTS, 3.0, &|from, values| {
        values.iter_mut().zip(&keys[from..]).for_each(|(value, key)| *value = x[key.place()]);
    });
}

/// Lanes of which each has a least rank.
const MINIMUM_LANES: usize = 64;
/// Elements that are looked at together.
const SCAN_ELEMENTS: usize = 64;
/// Room for the places of elements that may be wanted.
const MAX_CANDIDATES: usize = 4 * SCAN_ELEMENTS;

/// The least rank in each lane; what is left after the last whole chunk takes no part.
struct LaneMinima<'a, T> {
    x: &'a [T],
    down: bool,
}

impl<T: SortElement> Kernel for LaneMinima<'_, T> {
    type Out = [Rank<T>; MINIMUM_LANES];
    #[inline(always)]
    fn run(self) -> [Rank<T>; MINIMUM_LANES] {
        let mut least = [T::SortKey::MAX_RANK; MINIMUM_LANES];
        for chunk in self.x.as_chunks::<MINIMUM_LANES>().0 {
            for l in 0..MINIMUM_LANES {
                let rank = chunk[l].rank(self.down);
                least[l] = if rank < least[l] { rank } else { least[l] };
            }
        }
        least
    }
}

/// The places of elements whose ranks are not behind this one: how many elements were looked at
/// until there was no more room, and how many places there are.
struct NextCandidates<'a, T: SortElement> {
    x: &'a [T],
    down: bool,
    last: Rank<T>,
    found: &'a mut [u32; MAX_CANDIDATES],
}

impl<T: SortElement> Kernel for NextCandidates<'_, T> {
    type Out = (usize, usize);
    #[inline(always)]
    fn run(self) -> (usize, usize) {
        let (whole, rest) = self.x.as_chunks::<SCAN_ELEMENTS>();
        let (mut at, mut n) = (0, 0);
        for chunk in whole {
            // Flags by vectors, eight of which are a word, mostly 0. Element by element, each place
            // written and kept if it counts, the first 10 of a thousand took three times as long.
            let mut flags = [0u8; SCAN_ELEMENTS];
            for (flag, x) in flags.iter_mut().zip(chunk) {
                *flag = u8::from(x.rank(self.down) <= self.last);
            }
            if flags != [0; SCAN_ELEMENTS] {
                if n + SCAN_ELEMENTS > MAX_CANDIDATES {
                    return (at, n);
                }
                for (eight, flags) in flags.as_chunks().0.iter().enumerate() {
                    let mut word = u64::from_le_bytes(*flags);
                    while word != 0 {
                        self.found[n] = (at + 8 * eight) as u32 + word.trailing_zeros() / 8;
                        n += 1;
                        word &= word - 1;
                    }
                }
            }
            at += SCAN_ELEMENTS;
        }
        if n + SCAN_ELEMENTS > MAX_CANDIDATES {
            return (at, n);
        }
        for (i, x) in rest.iter().enumerate() {
            self.found[n] = (at + i) as u32;
            n += usize::from(x.rank(self.down) <= self.last);
        }
        (self.x.len(), n)
    }
}

/// The least keys of elements, of which the first has place `at`, in any order: `first` of them, or
/// all. Of those that were seen, as many are held, and some more; what is not before the last one
/// of these is passed over, by vectors. Where it may be at most is known beforehand, if a few are
/// wanted: as many lanes have an element that is not behind it. Without, the first 10
/// of a thousand take six times as long.
fn k_least<T: SortElement>(
    isa: Isa,
    x: &[T],
    at: usize,
    first: usize,
    down: bool,
) -> Result<Vec<T::SortKey>> {
    let mut keys: Vec<T::SortKey> = host::with_capacity(2 * first + EXTRA_CANDIDATES)?;
    let mut last: Option<T::SortKey> = None;
    if (1..=MINIMUM_LANES / 2).contains(&first) {
        let mut lanes = dispatch_formula::<T, _>(isa, LaneMinima { x, down });
        let (_, nth, _) = lanes.select_nth_unstable(first - 1);
        last = Some(T::SortKey::new(*nth, T::SortKey::MAX_PLACE));
    }
    let (mut from, mut found) = (0, [0; MAX_CANDIDATES]);
    while from < x.len() {
        let rest = &x[from..];
        let (looked, n) = match last {
            Some(last) => {
                let next = NextCandidates { x: rest, down, last: last.rank(), found: &mut found };
                dispatch_formula::<T, _>(isa, next)
            }
            None => {
                let n = rest.len().min(MAX_CANDIDATES);
                found[..n].iter_mut().zip(0..).for_each(|(found, i)| *found = i);
                (n, n)
            }
        };
        for &i in &found[..n] {
            let place = from + i as usize;
            let key = T::SortKey::new(x[place].rank(down), at + place);
            if last.is_some_and(|last| key > last) {
                continue;
            }
            keys.push(key);
            if keys.len() == 2 * first + EXTRA_CANDIDATES {
                let (_, nth, _) = keys.select_nth_unstable(first - 1);
                last = Some(*nth);
                keys.truncate(first);
            }
        }
        from += looked;
    }
    Ok(keys)
}

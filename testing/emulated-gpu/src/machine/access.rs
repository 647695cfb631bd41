//! Loads, stores and atomics, lane by lane.

use super::memory::{Memory, wrong};
use super::shared::Touch;
use super::{Fault, FaultKind, Group, Mask, Warp};
use crate::inst::{Access, Atomic, Column, Space};
use crate::sys::raw::{Place, Raw};
use std::sync::atomic::Ordering::Relaxed;

/// The lanes of a mask.
pub fn lanes(mut mask: Mask) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (lane < Mask::BITS as usize).then_some(lane)
    })
}

impl<const L: usize> Warp<L> {
    #[inline(always)]
    fn address(&self, a: &Access, lane: usize) -> u64 {
        match a.space {
            Space::Global => self.wide[a.address as usize][lane].wrapping_add(u64::from(a.offset)),
            Space::Shared => u64::from(self.narrow[a.address as usize][lane].wrapping_add(a.offset)),
        }
    }
    #[inline(always)]
    fn aligned(address: u64, a: &Access) -> Result<(), Fault> {
        if address & (u64::from(a.aligned) - 1) == 0 {
            return Ok(());
        }
        let all = u64::from(a.size) * u64::from(a.count);
        let what = format!("an access of {all} bytes at address {address:#x}, no multiple of {}", a.aligned);
        Err(Fault::new(FaultKind::Misaligned, what))
    }

    #[inline(always)]
    pub fn load(&mut self, a: Access, group: &mut Group<'_>) -> Result<(), Fault> {
        match (a.space, a.size) {
            (Space::Global, 1) => self.load_global(a, group.memory, |raw, at| u64::from(raw.load8(at))),
            (Space::Global, 2) => self.load_global(a, group.memory, |raw, at| u64::from(raw.load16(at))),
            (Space::Global, 4) => self.load_global(a, group.memory, |raw, at| u64::from(raw.load32(at))),
            (Space::Global, _) => self.load_global(a, group.memory, Raw::load64),
            (Space::Shared, _) => self.load_shared(a, group),
        }
    }
    #[inline(always)]
    fn set(&mut self, a: &Access, i: usize, lane: usize, v: u64) {
        let column = a.columns[i] as usize;
        if a.wide {
            self.wide[column][lane] = v;
        } else {
            self.narrow[column][lane] = v as u32;
        }
    }
    #[inline(always)]
    fn value(&self, a: &Access, i: usize, lane: usize) -> u64 {
        let column = a.columns[i] as usize;
        if a.wide { self.wide[column][lane] } else { u64::from(self.narrow[column][lane]) }
    }

    #[inline(always)]
    fn load_global(
        &mut self,
        a: Access,
        memory: &Memory,
        get: impl Fn(&Raw, Place) -> u64,
    ) -> Result<(), Fault> {
        let size = u64::from(a.size);
        let mut pieces = Pieces::new(memory);
        for lane in lanes(self.mask()) {
            let address = self.address(&a, lane);
            Self::aligned(address, &a)?;
            for i in 0..usize::from(a.count) {
                let address = address + i as u64 * size;
                let (raw, at) = pieces.find(address, size)?;
                self.set(&a, i, lane, get(raw, at));
            }
        }
        Ok(())
    }
    fn load_shared(&mut self, a: Access, group: &mut Group<'_>) -> Result<(), Fault> {
        let size = usize::from(a.size);
        for lane in lanes(self.mask()) {
            let address = self.address(&a, lane);
            Self::aligned(address, &a)?;
            for i in 0..usize::from(a.count) {
                let thread = self.first + lane as u16;
                let at =
                    group.shared.touch((address as usize + i * size) as u32, size, thread, Touch::Read)?;
                let v = group.shared.get(at, size);
                self.set(&a, i, lane, v);
            }
        }
        Ok(())
    }

    #[inline(always)]
    pub fn store(&mut self, a: Access, group: &mut Group<'_>) -> Result<(), Fault> {
        match (a.space, a.size) {
            (Space::Global, 1) => self.store_global(a, group.memory, |raw, at, v| raw.store8(at, v as u8)),
            (Space::Global, 2) => self.store_global(a, group.memory, |raw, at, v| raw.store16(at, v as u16)),
            (Space::Global, 4) => self.store_global(a, group.memory, |raw, at, v| raw.store32(at, v as u32)),
            (Space::Global, _) => self.store_global(a, group.memory, Raw::store64),
            (Space::Shared, _) => self.store_shared(a, group),
        }
    }
    #[inline(always)]
    fn store_global(
        &mut self,
        a: Access,
        memory: &Memory,
        put: impl Fn(&Raw, Place, u64),
    ) -> Result<(), Fault> {
        let size = u64::from(a.size);
        let mut pieces = Pieces::new(memory);
        for lane in lanes(self.mask()) {
            let address = self.address(&a, lane);
            Self::aligned(address, &a)?;
            for i in 0..usize::from(a.count) {
                let address = address + i as u64 * size;
                let (raw, at) = pieces.find(address, size)?;
                put(raw, at, self.value(&a, i, lane));
            }
        }
        Ok(())
    }
    fn store_shared(&mut self, a: Access, group: &mut Group<'_>) -> Result<(), Fault> {
        let size = usize::from(a.size);
        for lane in lanes(self.mask()) {
            let address = self.address(&a, lane);
            Self::aligned(address, &a)?;
            for i in 0..usize::from(a.count) {
                let thread = self.first + lane as u16;
                let at =
                    group.shared.touch((address as usize + i * size) as u32, size, thread, Touch::Write)?;
                group.shared.put(at, size, self.value(&a, i, lane));
            }
        }
        Ok(())
    }

    pub fn atomic(
        &mut self,
        op: Atomic,
        space: Space,
        [to, address, operand]: [Column; 3],
        offset: u32,
        group: &mut Group<'_>,
    ) -> Result<(), Fault> {
        let a = Access {
            space,
            address,
            offset,
            aligned: 4,
            size: 4,
            wide: false,
            count: 1,
            columns: [to, 0, 0, 0],
        };
        for lane in lanes(self.mask()) {
            let address = self.address(&a, lane);
            let v = self.narrow[operand as usize][lane];
            let old = match space {
                Space::Global => {
                    let (raw, place) = Pieces::new(group.memory).find(address, 4)?;
                    let change = |old| Some(combined(op, old, v));
                    raw.atomic32(place).fetch_update(Relaxed, Relaxed, change).unwrap_or_else(|old| old)
                }
                Space::Shared => {
                    let thread = self.first + lane as u16;
                    let at = group.shared.touch(address as u32, 4, thread, Touch::Atomic)?;
                    let old = group.shared.get(at, 4) as u32;
                    group.shared.put(at, 4, u64::from(combined(op, old, v)));
                    old
                }
            };
            self.narrow[to as usize][lane] = old;
        }
        Ok(())
    }
}

fn combined(op: Atomic, old: u32, v: u32) -> u32 {
    match op {
        Atomic::Add => old.wrapping_add(v),
        Atomic::MinS => (old as i32).min(v as i32) as u32,
        Atomic::MinU => old.min(v),
        Atomic::MaxS => (old as i32).max(v as i32) as u32,
        Atomic::MaxU => old.max(v),
        Atomic::And => old & v,
        Atomic::Or => old | v,
        Atomic::Xor => old ^ v,
        Atomic::Exchange => v,
    }
}

/// Addresses in memory: the accesses of a warp are mostly to one allocation.
struct Pieces<'m> {
    memory: &'m Memory,
    last: Option<(u64, &'m Raw)>,
}

impl<'m> Pieces<'m> {
    #[inline(always)]
    fn new(memory: &'m Memory) -> Self {
        Pieces { memory, last: None }
    }
    #[inline(always)]
    fn find(&mut self, address: u64, size: u64) -> Result<(&'m Raw, Place), Fault> {
        let first = Memory::first(address);
        let raw = match self.last {
            Some((last, raw)) if last == first => raw,
            _ => match self.memory.find(address) {
                Some((raw, _)) => raw,
                None => return Err(wrong(self.memory, address, size)),
            },
        };
        self.last = Some((first, raw));
        match raw.place(address - first, size) {
            Some(at) => Ok((raw, at)),
            None => Err(wrong(self.memory, address, size)),
        }
    }
}

/// A word of global memory.
pub fn word(memory: &Memory, address: u64) -> Result<u32, Fault> {
    let (raw, at) = Pieces::new(memory).find(address, 4)?;
    Ok(raw.load32(at))
}

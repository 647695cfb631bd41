//! Loads, stores and atomics, lane by lane.

use super::memory::{Memory, wrong};
use super::shared::Touch;
use super::{Fault, FaultKind, Group, LANES, Warp};
use crate::ptx::inst::{Access, Atomic, Column, Space};
use std::sync::atomic::Ordering::Relaxed;

/// The lanes of a mask.
pub fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    })
}

impl Warp {
    #[inline(always)]
    fn address(&self, a: &Access, lane: usize) -> u64 {
        match a.space {
            Space::Global => self.wide[a.address as usize][lane].wrapping_add(u64::from(a.offset)),
            Space::Shared => u64::from(self.narrow[a.address as usize][lane].wrapping_add(a.offset)),
        }
    }
    /// A vector begins at a multiple of its size.
    #[inline(always)]
    fn aligned(address: u64, a: &Access) -> Result<(), Fault> {
        let all = u64::from(a.size) * u64::from(a.count);
        if address & (all - 1) == 0 {
            return Ok(());
        }
        Err(Fault::new(FaultKind::Misaligned, format!("an access of {all} bytes at address {address:#x}")))
    }

    #[inline(always)]
    pub fn load(&mut self, a: Access, group: &mut Group<'_>) -> Result<(), Fault> {
        let size = usize::from(a.size);
        for lane in lanes(self.mask()) {
            let address = self.address(&a, lane);
            Self::aligned(address, &a)?;
            for i in 0..usize::from(a.count) {
                let address = address + (i * size) as u64;
                let v = match a.space {
                    Space::Global => get(group.memory, address, a.size)?,
                    Space::Shared => {
                        let thread = self.first + lane as u16;
                        let at = group.shared.touch(address as u32, size, thread, Touch::Read)?;
                        group.shared.get(at, size)
                    }
                };
                let column = a.columns[i] as usize;
                if a.wide {
                    self.wide[column][lane] = v;
                } else {
                    self.narrow[column][lane] = v as u32;
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    pub fn store(&mut self, a: Access, group: &mut Group<'_>) -> Result<(), Fault> {
        let size = usize::from(a.size);
        for lane in lanes(self.mask()) {
            let address = self.address(&a, lane);
            Self::aligned(address, &a)?;
            for i in 0..usize::from(a.count) {
                let address = address + (i * size) as u64;
                let column = a.columns[i] as usize;
                let v = if a.wide { self.wide[column][lane] } else { u64::from(self.narrow[column][lane]) };
                match a.space {
                    Space::Global => put(group.memory, address, a.size, v)?,
                    Space::Shared => {
                        let thread = self.first + lane as u16;
                        let at = group.shared.touch(address as u32, size, thread, Touch::Write)?;
                        group.shared.put(at, size, v);
                    }
                }
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
        let a = Access { space, address, offset, size: 4, wide: false, count: 1, columns: [to, 0, 0, 0] };
        for lane in lanes(self.mask()) {
            let address = self.address(&a, lane);
            let v = self.narrow[operand as usize][lane];
            let old = match space {
                Space::Global => {
                    let place =
                        group.memory.find(address).and_then(|(raw, at)| Some((raw, raw.place(at, 4)?)));
                    let (raw, place) = place.ok_or_else(|| wrong(group.memory, address, 4))?;
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

#[inline(always)]
pub fn get(memory: &Memory, address: u64, size: u8) -> Result<u64, Fault> {
    let place = memory.find(address).and_then(|(raw, at)| Some((raw, raw.place(at, u64::from(size))?)));
    let Some((raw, at)) = place else { return Err(wrong(memory, address, u64::from(size))) };
    Ok(match size {
        1 => u64::from(raw.load8(at)),
        2 => u64::from(raw.load16(at)),
        4 => u64::from(raw.load32(at)),
        _ => raw.load64(at),
    })
}

#[inline(always)]
fn put(memory: &Memory, address: u64, size: u8, v: u64) -> Result<(), Fault> {
    let place = memory.find(address).and_then(|(raw, at)| Some((raw, raw.place(at, u64::from(size))?)));
    let Some((raw, at)) = place else { return Err(wrong(memory, address, u64::from(size))) };
    match size {
        1 => raw.store8(at, v as u8),
        2 => raw.store16(at, v as u16),
        4 => raw.store32(at, v as u32),
        _ => raw.store64(at, v),
    }
    Ok(())
}

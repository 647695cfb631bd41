//! Device memory: allocations that are far apart in the address space, so that an access out of
//! bounds of one is in none.

use super::{Fault, FaultKind};
use crate::sys::raw::Raw;
use std::sync::Arc;

/// Address bits within an allocation.
const INSIDE: u32 = 36;
/// Where the first allocation begins: beyond all addresses of a host's program, so that one is
/// never taken for the other.
const FIRST: u64 = 1 << 60;

/// Allocations, by address.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pieces: Vec<Option<Arc<Raw>>>,
    free: Vec<usize>,
}

impl Memory {
    /// A new allocation; its address. `None` if the system has no memory, or if it is larger than
    /// the distance between allocations.
    pub fn add(&mut self, bytes: usize) -> Option<u64> {
        if bytes as u64 > 1 << INSIDE {
            return None;
        }
        let raw = Some(Arc::new(Raw::new(bytes)?));
        // An address is not reused soon: the oldest free one is, and only when there are many.
        let i = if self.free.len() > 1 << 12 {
            let i = self.free.remove(0);
            self.pieces[i] = raw;
            i
        } else {
            self.pieces.push(raw);
            self.pieces.len() - 1
        };
        Some(FIRST + ((i as u64) << INSIDE))
    }
    /// Removes an allocation; its bytes. `None` if there is none at this address.
    pub fn remove(&mut self, address: u64) -> Option<u64> {
        let i = self.index(address).filter(|_| address & ((1 << INSIDE) - 1) == 0)?;
        let raw = self.pieces[i].take()?;
        self.free.push(i);
        Some(raw.len() as u64)
    }
    fn index(&self, address: u64) -> Option<usize> {
        let i = (address.checked_sub(FIRST)? >> INSIDE) as usize;
        (i < self.pieces.len()).then_some(i)
    }
    /// Is an address of a device, and not of the host?
    pub fn is_address(address: u64) -> bool {
        address >= FIRST
    }
    /// The start of the allocation around an address.
    #[inline(always)]
    pub(crate) fn first(address: u64) -> u64 {
        address & !((1 << INSIDE) - 1)
    }
    /// The allocation around an address, and the offset in it.
    #[inline(always)]
    pub(crate) fn find(&self, address: u64) -> Option<(&Arc<Raw>, u64)> {
        let i = self.index(address)?;
        Some((self.pieces[i].as_ref()?, address & ((1 << INSIDE) - 1)))
    }
    /// The allocation that holds a range.
    pub(crate) fn range(&self, address: u64, bytes: u64) -> Option<(&Arc<Raw>, usize)> {
        let (raw, at) = self.find(address)?;
        (at + bytes <= raw.len() as u64).then_some((raw, at as usize))
    }
    /// All bytes of an allocation.
    ///
    /// # Panics
    /// If there is none at this address.
    pub fn bytes(&self, address: u64) -> Vec<u8> {
        self.find(address).expect("an address that was given").0.to_vec()
    }
    /// Writes all bytes of an allocation.
    ///
    /// # Panics
    /// If there is none at this address, or if it has another size.
    pub fn write(&self, address: u64, bytes: &[u8]) {
        self.find(address).expect("an address that was given").0.write(bytes);
    }
}

/// The fault of an access.
#[cold]
pub fn wrong(memory: &Memory, address: u64, size: u64) -> Fault {
    match memory.find(address) {
        Some((raw, at)) if at + size <= raw.len() as u64 => {
            Fault::new(FaultKind::Misaligned, format!("an access of {size} bytes at address {address:#x}"))
        }
        Some((raw, at)) => Fault::new(
            FaultKind::Illegal,
            format!("an access of {size} bytes at byte {at} of an allocation of {}", raw.len()),
        ),
        None => {
            Fault::new(FaultKind::Illegal, format!("an access at {address:#x}, where nothing is allocated"))
        }
    }
}

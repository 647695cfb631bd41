//! Addresses, loads, stores, atomics.

use super::cursor::{Cursor, Ty};
use super::decode::Decoder;
use super::names::Named;
use emulated_gpu::inst::*;

fn space(pointer: Ty) -> Result<Space, String> {
    match pointer {
        Ty::Global => Ok(Space::Global),
        Ty::Lds => Ok(Space::Shared),
        other => Err(format!("{other:?} is no pointer")),
    }
}

impl Decoder<'_> {
    /// `getelementptr float, ptr addrspace(1) %b0, i64 %v1`
    pub fn address(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<(), String> {
        let size = u64::from(c.ty()?.bytes());
        c.wants(",")?;
        let pointer = c.ty()?;
        let base = self.names.one(pointer, c.word())?;
        c.wants(",")?;
        let index = c.ty()?;
        let wanted = if pointer == Ty::Global { Ty::I64 } else { Ty::I32 };
        if index != wanted {
            return Err(format!("an index of {index:?}"));
        }
        let index = self.names.one(index, c.word())?;
        let size = self.names.constant(pointer.file(), size);
        let to = self.to(name, pointer)?;
        let all = [to, index, size, base];
        self.push(match space(pointer)? {
            Space::Global => Inst::Wide3(Three::Mad, all),
            Space::Shared => Inst::Narrow3(Three::Mad, all),
        });
        Ok(())
    }

    /// `, ptr addrspace(1) %v2, align 4`: four elements at a time.
    fn accesses(&mut self, ty: Ty, columns: &[Column], c: &mut Cursor<'_>) -> Result<Vec<Access>, String> {
        c.wants(",")?;
        let pointer = c.ty()?;
        let address = self.names.one(pointer, c.word())?;
        c.wants(", align")?;
        let aligned = c.number()? as u32;
        let (space, size) = (space(pointer)?, ty.bytes());
        if !aligned.is_power_of_two() || aligned > 64 {
            return Err("an alignment".into());
        }
        if space == Space::Shared {
            self.granule = self.granule.min(size.into());
        }
        let pieces = columns.chunks(4).enumerate().map(|(i, some)| {
            let offset = (i * 4) as u32 * u32::from(size);
            let aligned = if offset == 0 { aligned } else { aligned.min(offset & offset.wrapping_neg()) };
            let mut columns = [0; 4];
            columns[..some.len()].copy_from_slice(some);
            let (wide, count) = (ty.is_wide(), some.len() as u8);
            Access { space, address, offset, aligned: aligned as u8, size, wide, count, columns }
        });
        Ok(pieces.collect())
    }

    pub fn load(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<(), String> {
        let (ty, count) = c.vector()?;
        if ty == Ty::I1 || ty == Ty::I128 {
            return Err(format!("a load of {ty:?}"));
        }
        let columns: Vec<Column> = (0..count.unwrap_or(1)).map(|_| self.names.fresh(ty.file())).collect();
        let all = self.accesses(ty, &columns, c)?;
        c.takes(", !invariant.load !0");
        all.into_iter().for_each(|a| self.push(Inst::Load(a)));
        self.names.set(
            name,
            match count {
                None => Named::One(ty, columns[0]),
                Some(_) => Named::Vector(ty, columns.into_iter().map(Some).collect()),
            },
        )
    }
    pub fn store(&mut self, c: &mut Cursor<'_>) -> Result<(), String> {
        c.wants("store")?;
        let (ty, count) = c.vector()?;
        if ty == Ty::I1 || ty == Ty::I128 {
            return Err(format!("a store of {ty:?}"));
        }
        let word = c.word();
        let columns = match count {
            None => vec![self.names.one(ty, word)?],
            Some(count) => self.names.whole((ty, count), word)?,
        };
        let all = self.accesses(ty, &columns, c)?;
        all.into_iter().for_each(|a| self.push(Inst::Store(a)));
        Ok(())
    }

    /// `atomicrmw add ptr addrspace(1) %v3, i32 %v4 syncscope("agent") monotonic, align 4`
    pub fn atomic(&mut self, name: &str, c: &mut Cursor<'_>) -> Result<(), String> {
        let what = match c.word() {
            "add" => Atomic::Add,
            "min" => Atomic::MinS,
            "umin" => Atomic::MinU,
            "max" => Atomic::MaxS,
            "umax" => Atomic::MaxU,
            "and" => Atomic::And,
            "or" => Atomic::Or,
            "xor" => Atomic::Xor,
            "xchg" => Atomic::Exchange,
            other => return Err(format!("an atomic {other}")),
        };
        let pointer = c.ty()?;
        let address = self.names.one(pointer, c.word())?;
        c.wants(",")?;
        let ty = c.ty()?;
        if !matches!(ty, Ty::I32 | Ty::Float) {
            return Err(format!("an atomic of {ty:?}"));
        }
        let v = self.names.one(ty, c.word())?;
        let space = space(pointer)?;
        let scope = if space == Space::Global { "agent" } else { "workgroup" };
        c.wants(&format!("syncscope(\"{scope}\") monotonic, align 4"))?;
        if space == Space::Shared {
            self.granule = self.granule.min(4);
        }
        let to = self.to(name, ty)?;
        self.push(Inst::Atomic(what, space, [to, address, v], 0));
        Ok(())
    }
}

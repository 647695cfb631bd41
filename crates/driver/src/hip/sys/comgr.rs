//! AMD's compiler library (comgr): LLVM IR to code objects.
//!
//! Versions 2 (ROCm up to 6) and 3 (ROCm 7) number their actions differently. What an
//! architecture's name means is asked first: compilers end the process for one that they do not
//! know.

use crate::sys::Wanted;
use elinvar_core::{Error, ErrorKind, Result};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The library, as the user may name it and as systems do. The first is that of ROCm 7.
static WANTED: Wanted = Wanted {
    driver: "rocm",
    variable: "ELINVAR_COMGR_LIBRARY",
    names: &["libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so"],
    install: "install ROCm's compiler library (on Debian: apt-get install libamd-comgr2)",
    what: "AMD's compiler library",
    named: OnceLock::new(),
};

/// A result; 0 is success.
type Status = c_int;
/// Data, a set of data, or what an action is told: a structure of one number.
type Handle = u64;

// Kinds of data.
const KIND_LOG: c_int = 5;
const KIND_BC: c_int = 6;
const KIND_RELOCATABLE: c_int = 7;
const KIND_EXECUTABLE: c_int = 8;

/// A compiler's messages, at most.
const LOG_CHARS: usize = 2000;

macro_rules! table {
    ($($name:ident: $symbol:literal ($($arg:ty),*) $(-> $result:ty)?;)*) => {
        /// ComgrFunctions of the library, with the types of `amd_comgr.h`.
        struct ComgrFunctions {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
        }

        impl ComgrFunctions {
            /// Finds them all, or says which one is missing.
            ///
            /// # Safety
            /// A library that has a function of one of these names has it with these types, and
            /// stays loaded as long as the table is used.
            unsafe fn of(library: &Library) -> Result<ComgrFunctions, &'static str> {
                // SAFETY: the caller's promise.
                unsafe {
                    Ok(ComgrFunctions {
                        $($name: *library.get(concat!($symbol, "\0").as_bytes()).map_err(|_| $symbol)?,)*
                    })
                }
            }
        }
    };
}

table! {
    version: "amd_comgr_get_version" (*mut usize, *mut usize);
    isa_count: "amd_comgr_get_isa_count" (*mut usize) -> Status;
    isa_name: "amd_comgr_get_isa_name" (usize, *mut *const c_char) -> Status;
    create_data: "amd_comgr_create_data" (c_int, *mut Handle) -> Status;
    release_data: "amd_comgr_release_data" (Handle) -> Status;
    set_data: "amd_comgr_set_data" (Handle, usize, *const c_char) -> Status;
    set_data_name: "amd_comgr_set_data_name" (Handle, *const c_char) -> Status;
    get_data: "amd_comgr_get_data" (Handle, *mut usize, *mut c_char) -> Status;
    create_set: "amd_comgr_create_data_set" (*mut Handle) -> Status;
    destroy_set: "amd_comgr_destroy_data_set" (Handle) -> Status;
    add_to_set: "amd_comgr_data_set_add" (Handle, Handle) -> Status;
    count_in_set: "amd_comgr_action_data_count" (Handle, c_int, *mut usize) -> Status;
    data_of_set: "amd_comgr_action_data_get_data" (Handle, c_int, usize, *mut Handle) -> Status;
    create_action: "amd_comgr_create_action_info" (*mut Handle) -> Status;
    destroy_action: "amd_comgr_destroy_action_info" (Handle) -> Status;
    set_isa: "amd_comgr_action_info_set_isa_name" (Handle, *const c_char) -> Status;
    set_options: "amd_comgr_action_info_set_option_list" (Handle, *const *const c_char, usize) -> Status;
    set_logging: "amd_comgr_action_info_set_logging" (Handle, bool) -> Status;
    act: "amd_comgr_do_action" (c_int, Handle, Handle, Handle) -> Status;
}

/// The library, loaded.
pub struct Comgr {
    table: ComgrFunctions,
    /// Its version, as 2.4.
    version: (usize, usize),
    /// The instruction sets that it compiles for, by their whole names.
    isas: Vec<String>,
    /// It has global state, so one compiles at a time.
    busy: Mutex<()>,
}

/// Names the library that is loaded in the place of the system's; `ELINVAR_COMGR_LIBRARY` in the
/// environment goes before it.
///
/// # Errors
/// `InvalidArgument` if another one was named before.
pub fn use_compiler(path: &Path) -> Result<()> {
    WANTED.name(path)
}

/// The one library of this process.
///
/// # Errors
/// `DriverMissing` with what to install.
pub fn comgr() -> Result<&'static Comgr> {
    static COMGR: OnceLock<Result<Comgr>> = OnceLock::new();
    COMGR.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn load() -> Result<Comgr> {
    let (name, library) = WANTED.load()?;
    // SAFETY: a library of this name has its functions with the types of its header; it is leaked,
    // so it stays.
    let table = unsafe { ComgrFunctions::of(&library) };
    std::mem::forget(library);
    let table = table.map_err(|symbol| WANTED.lacks(&name, symbol))?;
    let (mut version, mut count) = ((0, 0), 0);
    // SAFETY: the places for the results are valid.
    unsafe {
        (table.version)(&raw mut version.0, &raw mut version.1);
        check((table.isa_count)(&raw mut count), "counting instruction sets")?;
    }
    let isa = |i: usize| {
        let mut text = std::ptr::null();
        // SAFETY: the place for the result is valid; the text belongs to the library and stays.
        unsafe {
            check((table.isa_name)(i, &raw mut text), "asking for an instruction set")?;
            Ok(CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    };
    let isas = (0..count).map(isa).collect::<Result<_>>()?;
    Ok(Comgr { table, version, isas, busy: Mutex::new(()) })
}

fn check(status: Status, what: &str) -> Result<()> {
    match status {
        0 => Ok(()),
        3 => Err(Error::memory(format!("rocm: {what}: comgr is out of resources"))),
        other => Err(Error::unsupported(format!("rocm: {what}: comgr's error {other}"))),
    }
}

/// Something of the library's, given back when dropped.
struct Owned<'a> {
    raw: Handle,
    back: unsafe extern "C" fn(Handle) -> Status,
    /// The library is there.
    _comgr: PhantomData<&'a Comgr>,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made by this library, and nothing else has it.
        unsafe { (self.back)(self.raw) };
    }
}

impl Comgr {
    /// The library and its version.
    pub fn name(&self) -> String {
        format!("comgr {}.{}", self.version.0, self.version.1)
    }
    /// The instruction sets that it compiles for: `amdgcn-amd-amdhsa--gfx90a`.
    pub fn isas(&self) -> &[String] {
        &self.isas
    }

    /// The numbers of its actions: a text to a relocatable object, and that to an executable one.
    fn actions(&self) -> [c_int; 2] {
        if self.version.0 >= 3 { [4, 7] } else { [6, 9] }
    }

    /// That it compiles for an instruction set.
    ///
    /// # Errors
    /// `Unsupported` if not.
    pub fn knows(&self, isa: &str) -> Result<()> {
        let plain = isa.split(':').next().unwrap_or(isa);
        if self.isas.iter().any(|known| known == plain) {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "rocm: {} does not know {plain}; a newer ROCm has a compiler for it",
            self.name()
        )))
    }

    /// The code object of a text for an instruction set, which may have features behind it
    /// (`amdgcn-amd-amdhsa--gfx90a:xnack-`).
    ///
    /// # Errors
    /// `Unsupported` if the library does not know the instruction set, or with what its compiler
    /// says of the text.
    pub fn compile(&self, name: &str, text: &str, isa: &str) -> Result<Vec<u8>> {
        self.knows(isa)?;
        let _guard = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let input = self.set()?;
        // SAFETY: the place for the result is valid.
        let data =
            self.make(|to| unsafe { (self.table.create_data)(KIND_BC, to) }, self.table.release_data)?;
        let file = c"kernel.ll";
        // SAFETY: the data was just made, and the text is as long as is said; the library copies
        // it.
        unsafe {
            check((self.table.set_data)(data.raw, text.len(), text.as_ptr().cast()), name)?;
            check((self.table.set_data_name)(data.raw, file.as_ptr()), name)?;
            check((self.table.add_to_set)(input.raw, data.raw), name)?;
        }
        let [to_relocatable, to_executable] = self.actions();
        let relocatable = self.act(to_relocatable, isa, &["-O3"], &input, name)?;
        let only = self.only(&relocatable, KIND_RELOCATABLE, name)?;
        let linked = self.set()?;
        // SAFETY: both were made by this library.
        check(unsafe { (self.table.add_to_set)(linked.raw, only.raw) }, name)?;
        let executable = self.act(to_executable, isa, &[], &linked, name)?;
        let only = self.only(&executable, KIND_EXECUTABLE, name)?;
        self.bytes(&only, name)
    }

    fn make(
        &self,
        make: impl FnOnce(*mut Handle) -> Status,
        back: unsafe extern "C" fn(Handle) -> Status,
    ) -> Result<Owned<'_>> {
        let mut raw = 0;
        check(make(&raw mut raw), "making an object")?;
        Ok(Owned { raw, back, _comgr: PhantomData })
    }
    fn set(&self) -> Result<Owned<'_>> {
        // SAFETY: the place for the result is valid.
        self.make(|to| unsafe { (self.table.create_set)(to) }, self.table.destroy_set)
    }

    /// What an action makes of a set.
    fn act(
        &self,
        kind: c_int,
        isa: &str,
        options: &[&str],
        from: &Owned<'_>,
        name: &str,
    ) -> Result<Owned<'_>> {
        let none = |_| Error::unsupported("rocm: a name has no zeros");
        let isa = CString::new(isa).map_err(none)?;
        let options: Vec<CString> =
            options.iter().map(|&o| CString::new(o).map_err(none)).collect::<Result<_>>()?;
        let list: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: the place for the result is valid.
        let info = self.make(|to| unsafe { (self.table.create_action)(to) }, self.table.destroy_action)?;
        let to = self.set()?;
        // SAFETY: all of them were made by this library; the texts live until it has copied them.
        let status = unsafe {
            check((self.table.set_isa)(info.raw, isa.as_ptr()), name)?;
            check((self.table.set_options)(info.raw, list.as_ptr(), list.len()), name)?;
            check((self.table.set_logging)(info.raw, true), name)?;
            (self.table.act)(kind, info.raw, from.raw, to.raw)
        };
        if status == 0 {
            return Ok(to);
        }
        let log = self.only(&to, KIND_LOG, name).and_then(|log| self.bytes(&log, name)).unwrap_or_default();
        let said: String =
            String::from_utf8_lossy(&log).trim().replace('\n', "; ").chars().take(LOG_CHARS).collect();
        Err(Error::new(ErrorKind::Unsupported, format!("rocm: {name}: {} says: {said}", self.name())))
    }

    /// The first of a kind in a set.
    fn only(&self, set: &Owned<'_>, kind: c_int, name: &str) -> Result<Owned<'_>> {
        let mut count = 0;
        // SAFETY: the set was made by this library; the place for the result is valid.
        check(unsafe { (self.table.count_in_set)(set.raw, kind, &raw mut count) }, name)?;
        if count == 0 {
            return Err(Error::unsupported(format!("rocm: {name}: {} made nothing", self.name())));
        }
        // SAFETY: as above, and there is one.
        self.make(|to| unsafe { (self.table.data_of_set)(set.raw, kind, 0, to) }, self.table.release_data)
    }

    fn bytes(&self, data: &Owned<'_>, name: &str) -> Result<Vec<u8>> {
        let mut size = 0;
        // SAFETY: the data was made by this library; it is asked for its size first, and there is
        // room for as much.
        unsafe {
            check((self.table.get_data)(data.raw, &raw mut size, std::ptr::null_mut()), name)?;
            let mut all = vec![0u8; size];
            check((self.table.get_data)(data.raw, &raw mut size, all.as_mut_ptr().cast()), name)?;
            Ok(all)
        }
    }
}

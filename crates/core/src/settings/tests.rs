//! Values of variables, and settings that contradict each other.

use super::*;
use crate::ErrorKind;

/// Variables of these settings, and no others.
fn variables_of(all: &[(Setting, &str)]) -> Vec<Option<OsString>> {
    let value = |s: &Setting| all.iter().find(|(t, _)| t == s).map(|(_, v)| OsString::from(v));
    Setting::ALL.iter().map(value).collect()
}

#[test]
fn values_of_variables() {
    use Setting::*;
    let rows = [
        (MemoryLimit, "0", Some("0 bytes")),
        (MemoryLimit, "2GiB", Some("2147483648 bytes")),
        (PoolInitial, "3 MiB", Some("3145728 bytes")),
        (PoolMaximum, "1KiB", Some("1024 bytes")),
        (PoolGrowth, "1TiB", Some("1099511627776 bytes")),
        (MemoryLimit, "2GB", None),
        (MemoryLimit, "-1", None),
        // 2^24 TiB are 2^64 bytes.
        (MemoryLimit, "16777216TiB", None),
        (Threads, "3", Some("3")),
        (Threads, "three", None),
        (Isa, "avx2", Some("avx2")),
        (FuseFrom, "100", Some("100")),
        (PackUpTo, "1e6", None),
        (Precision, "fast", Some("fast")),
        (Precision, "Fast", None),
        (Autotune, "0", Some("off")),
        (Autotune, "1", Some("on")),
        (Autotune, "2", Some("print")),
        (Autotune, "yes", None),
        (TuneCache, "/tmp/tiles", Some("/tmp/tiles")),
        (Validation, "0", Some("off")),
        (Validation, "1", Some("calls")),
        (Validation, "gpu", Some("kernels")),
        (Validation, "2", None),
    ];
    for (setting, text, want) in rows {
        let values = variables_of(&[(setting, text)]);
        for kind in DeviceKind::ALL {
            let got = Settings::from_variables(kind, &values);
            match (setting.is_of(kind), want) {
                (false, _) => {
                    assert_eq!(got.unwrap(), Settings::default(), "{kind}: {setting} is for others")
                }
                (true, Some(want)) => assert_eq!(got.unwrap().text(setting).as_deref(), Some(want)),
                (true, None) => {
                    let want =
                        format!("{} is \"{text}\", and should be {}", setting.variable(), setting.values());
                    assert_eq!(got.unwrap_err().message(), want);
                }
            }
        }
    }
}

#[test]
fn what_is_set_wins_over_the_environment() {
    let mine = Settings { threads: Some(2), ..Settings::default() };
    let theirs = Settings { threads: Some(4), isa: Some("plain".into()), ..Settings::default() };
    let both = mine.or(theirs);
    assert_eq!((both.threads, both.isa.as_deref()), (Some(2), Some("plain")));
}

#[test]
fn a_setting_that_a_kind_has_not_is_refused_with_those_it_has() {
    let set = Settings {
        memory_limit: Some(1),
        pool_initial: Some(1),
        pool_maximum: Some(1),
        pool_growth: Some(1),
        threads: Some(1),
        isa: Some("plain".into()),
        fuse_from: Some(1),
        pack_up_to: Some(1),
        precision: Some(Precision::Fast),
        autotune: Some(Autotune::On),
        tune_cache: Some("x".into()),
        validation: Some(Validation::Off),
    };
    let has = [
        (DeviceKind::Cpu, "memory_limit, threads, isa, fuse_from, pack_up_to, precision"),
        (DeviceKind::Reference, "none"),
        (
            DeviceKind::Cuda,
            "memory_limit, pool_initial, pool_maximum, pool_growth, precision, autotune, tune_cache",
        ),
        (
            DeviceKind::Rocm,
            "memory_limit, pool_initial, pool_maximum, pool_growth, precision, autotune, tune_cache",
        ),
        (
            DeviceKind::Vulkan,
            "memory_limit, pool_initial, pool_maximum, pool_growth, precision, autotune, tune_cache, validation",
        ),
    ];
    for (kind, has) in has {
        for &setting in Setting::ALL {
            let mut one = Settings::default();
            let text = variable_text(setting);
            one.parse(setting, text).unwrap();
            assert!(set.text(setting).is_some(), "the list above lacks {setting}");
            match one.complete(kind) {
                Ok(_) => assert!(setting.is_of(kind)),
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Unsupported);
                    assert_eq!(e.message(), format!("{kind}: no setting {setting}; it has: {has}"));
                }
            }
        }
    }
}

/// A value that each kind takes.
fn variable_text(setting: Setting) -> &'static str {
    match setting {
        Setting::Isa => "plain",
        Setting::Precision => "exact",
        Setting::TuneCache => "x",
        Setting::MemoryLimit
        | Setting::PoolInitial
        | Setting::PoolMaximum
        | Setting::PoolGrowth
        | Setting::Threads
        | Setting::FuseFrom
        | Setting::PackUpTo
        | Setting::Autotune
        | Setting::Validation => "1",
    }
}

#[test]
fn contradictions_are_one_sentence() {
    let none = Settings::default;
    let rows = [
        (
            Settings { pool_initial: Some(3), pool_maximum: Some(2), ..none() },
            "cuda: pool_initial is 3 bytes, and pool_maximum only 2",
        ),
        (
            Settings { pool_growth: Some(3), pool_maximum: Some(2), ..none() },
            "cuda: pool_growth is 3 bytes, and pool_maximum only 2",
        ),
        (
            Settings { pool_initial: Some(3), memory_limit: Some(2), ..none() },
            "cuda: pool_initial is 3 bytes, and memory_limit only 2",
        ),
        (
            Settings { pool_growth: Some(0), ..none() },
            "cuda: pool_growth is 0, and should be a number of bytes from 1",
        ),
        (
            Settings { pool_maximum: Some(0), ..none() },
            "cuda: pool_maximum is 0, and should be a number of bytes from 1",
        ),
    ];
    for (settings, want) in rows {
        let e = settings.complete(DeviceKind::Cuda).unwrap_err();
        assert_eq!((e.kind(), e.message()), (ErrorKind::InvalidArgument, want));
    }
    let e = Settings { threads: Some(0), ..none() }.complete(DeviceKind::Cpu).unwrap_err();
    assert_eq!(e.message(), "cpu: threads is 0, and work needs one thread at least");
    let e = Settings { pool_growth: Some(9), ..none() }.check_pool("A card", Some(8)).unwrap_err();
    assert_eq!(e.message(), "pool_growth is 9 bytes, more than the 8 of the device A card");
    Settings { pool_initial: Some(8), ..none() }.check_pool("A card", Some(8)).unwrap();
}

#[test]
fn an_open_device_keeps_what_it_was_opened_with() {
    let none = Settings::default;
    let open = Settings { autotune: Some(Autotune::Off), pool_initial: Some(8), ..none() };
    let rows = [
        (none(), None),
        (open.clone(), None),
        // Those of a handle, and the limit, which can be changed at any time.
        (Settings { precision: Some(Precision::Fast), memory_limit: Some(1), ..none() }, None),
        (
            Settings { autotune: Some(Autotune::On), ..none() },
            Some(
                "cuda:0 is open with autotune off, and a process opens a device once; ask for autotune on before \
                 its first use",
            ),
        ),
        (
            Settings { pool_maximum: Some(9), ..none() },
            Some(
                "cuda:0 is open without pool_maximum, and a process opens a device once; ask for pool_maximum 9 \
                 bytes before its first use",
            ),
        ),
    ];
    for (settings, want) in rows {
        let got = settings.agree("cuda:0", &open);
        assert_eq!(got.err().as_ref().map(Error::message), want);
    }
}

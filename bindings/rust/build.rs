//! Finds the installed libweir: in the folder that WEIR_LIB_DIR names, else by pkg-config.
use std::env;
use std::process::{exit, Command};

fn main() {
    for name in ["WEIR_LIB_DIR", "PKG_CONFIG_PATH", "PKG_CONFIG"] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{}", feature)).is_some();
    let mut parts = vec!["weir"]; // a library comes after those that use it
    if has("ASCEND") {
        parts.insert(0, "weir_acl");
    }
    if has("CUDA") {
        parts.insert(0, "weir_cuda");
    }
    let kind = if has("STATIC") { "static" } else { "dylib" };
    if let Ok(folder) = env::var("WEIR_LIB_DIR") {
        println!("cargo:rustc-link-search=native={}", folder);
        for part in parts {
            println!("cargo:rustc-link-lib={}={}", kind, part);
        }
        return;
    }
    let mut command = Command::new(env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into()));
    command.arg("--libs");
    if has("STATIC") {
        command.arg("--static");
    }
    command.args(parts.iter().map(|part| part.replace('_', "-")));
    let words = match command.output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => refuse(&String::from_utf8_lossy(&output.stderr)),
        Err(error) => refuse(&format!("pkg-config: {}", error)),
    };
    for word in words.split_whitespace() {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={}", folder);
        } else if let Some(name) = word.strip_prefix("-l") {
            let own = if parts.contains(&name) { kind } else { "dylib" };
            println!("cargo:rustc-link-lib={}={}", own, name);
        }
    }
}

fn refuse(reason: &str) -> ! {
    eprintln!("{}", reason.trim_end());
    eprintln!("weir is not found: install it, and set PKG_CONFIG_PATH to the folder of weir.pc or WEIR_LIB_DIR to that of libweir.so");
    exit(1)
}

//! The job's key: who has it may speak in the job. An MPI library gives a provider no way to agree
//! on one, so it comes from what all processes of a job find in their environment.

use std::ffi::CStr;
use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};
use weft::error::Error;
use weft_wire::JobKey;

use crate::core::core;

/// The parameter's name: users set `FI_WEFT_KEY`.
pub const PARAMETER: &CStr = c"key";

/// What a launcher calls the job, in the environment of all its processes; the first that is there
/// counts.
const LAUNCHERS: &[&[&str]] =
    &[&["PMIX_NAMESPACE"], &["PMI_KVSNAME"], &["PMI_JOBID"], &["SLURM_JOB_ID", "SLURM_STEP_ID"]];

/// The job's key. `weft mpirun` makes a random one for each job and passes it in the environment.
/// Otherwise it is derived from `FI_WEFT_KEY`, or from the launcher's name for the job, which is no
/// secret: it keeps jobs apart, not attackers out. The user's number goes into every derived key.
///
/// # Errors
/// When `WEFT_JOB_KEY` is no key. Taken for some other secret, it would be less of one than its
/// user believes, and another one where a rank got it whole.
pub fn job_key() -> Result<JobKey, Error> {
    if let Some(given) = weft::env::text("WEFT_JOB_KEY") {
        return read(&given);
    }
    let parameter = core().and_then(|core| core.text(PARAMETER));
    let text = parameter.unwrap_or_else(|| launched_as(weft::env::text));
    // SAFETY: the call has no conditions.
    let user = unsafe { libc::getuid() };
    Ok(JobKey(derive(&text, user)))
}

/// The key that is given by its digits. An error does not show them.
fn read(given: &str) -> Result<JobKey, Error> {
    let given = given.trim();
    from_hex(given).map(JobKey).ok_or_else(|| {
        let why = match given.chars().count() {
            32 => "not all of its 32 characters are hexadecimal digits".to_string(),
            count => format!("it has {count} characters"),
        };
        let why = format!("{why} (a secret of any form goes into FI_WEFT_KEY)");
        weft::env::refuse("WEFT_JOB_KEY", "...", &why).into()
    })
}

/// What the launcher calls the job; nothing where it says nothing.
fn launched_as(variable: impl Fn(&str) -> Option<String>) -> String {
    for names in LAUNCHERS {
        let values: Option<Vec<String>> = names.iter().map(|name| variable(name)).collect();
        if let Some(values) = values {
            return values.join("/");
        }
    }
    String::new()
}

fn derive(text: &str, user: u32) -> [u8; 16] {
    let mut hasher = SipHasher13::new_with_keys(0x7765_6674, 1);
    hasher.write(text.as_bytes());
    hasher.write_u32(user.to_le());
    hasher.finish128().as_bytes()
}

/// 32 hexadecimal digits.
fn from_hex(text: &str) -> Option<[u8; 16]> {
    let digits: &[u8; 32] = text.as_bytes().try_into().ok()?;
    let mut key = [0; 16];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = (high << 4 | low) as u8;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_its_digits_only() {
        let key = from_hex("000102030405060708090a0b0c0d0eFF").unwrap();
        assert_eq!((key[1], key[15]), (1, 255));
        assert_eq!(from_hex("00"), None);
        assert_eq!(from_hex("0001020304050607080910111213141g"), None);
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_shown() {
        let digits = "000102030405060708090a0b0c0d0e0f";
        assert!(read(&format!(" {digits}\n")).is_ok());
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(
            message(&digits[1..]),
            "WEFT_JOB_KEY=...: it has 31 characters (a secret of any form goes into FI_WEFT_KEY); \
             expected: 32 hexadecimal digits"
        );
        for wrong in ["pass phrase", &digits.replace('f', "g"), "", &digits.repeat(2)] {
            let message = message(wrong);
            assert!(message.contains("FI_WEFT_KEY"), "{message}");
            assert!(wrong.is_empty() || !message.contains(wrong), "{message}");
        }
    }

    #[test]
    fn jobs_and_users_are_kept_apart() {
        assert_eq!(derive("a", 1), derive("a", 1));
        assert_ne!(derive("a", 1), derive("b", 1));
        assert_ne!(derive("a", 1), derive("a", 2));
    }

    #[test]
    fn the_launchers_name_for_the_job_is_found() {
        let slurm = |name: &str| name.starts_with("SLURM_").then(|| name[6..].to_string());
        assert_eq!(launched_as(slurm), "JOB_ID/STEP_ID");
        let half = |name: &str| (name == "SLURM_JOB_ID").then(|| "7".to_string());
        assert_eq!(launched_as(half), "");
    }
}

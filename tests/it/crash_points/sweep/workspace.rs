//! The workspace of a workload.

use super::*;

/// The workspace without what differs from play to play. The slot is due daily at the minute of `due`.
pub(super) fn files(workload: &Workload, due: &str) -> Workspace {
    let workspace = Workspace::new(&json!({ "turns": [] })).talkative();
    // Nobody to tell of trouble: what the owner is told is another test's.
    workspace.set("configs/gateway.json", "/owners", json!([]));
    workspace.write_json("configs/security.json", &behind_relay());
    workspace.set(
        "configs/security.json",
        "/send_allow",
        json!(["*@guest.example"]),
    );
    if workload.slots > 0 {
        let (hour, minute) = (&due[11..13], &due[14..16]);
        let head = format!(
            "name: Brief\nschedule: \"{minute} {hour} * * *\"\ntimezone: UTC\ndeliver_to: store"
        );
        workspace.write(
            "personas/ada/responsibilities/brief.md",
            &format!("---\n{head}\n---\nQ=brief\n"),
        );
        let head = head.replace("Brief", "Failing");
        workspace.write(
            "personas/ada/responsibilities/failing.md",
            &format!("---\n{head}\n---\nQ=failing\n"),
        );
    }
    workspace
}

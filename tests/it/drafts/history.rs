//! Later runs of the thread: a draft is no mail until it is sent.

use super::scene::{TEXT, drafting, edits, only_draft, says};
use crate::approvals::scene::{CONTACT, Scene};
use attache::replay::verify::Outcome;
use attache::store::ApprovalVerdict;

/// What the model was told in the last run of the thread.
async fn told_next(scene: &Scene, id: &str) -> String {
    let run = scene
        .writes(CONTACT, id, "In-Reply-To: <l1@x.test>\r\n")
        .await;
    let prompts = scene.world.app.prompts(&run).await;
    prompts.last().expect("a request").to_string()
}

/// Every run goes as it went, whatever has become of its drafts since.
async fn verified(scene: &Scene) {
    for run in scene.world.app.workspace.verified().await {
        assert!(matches!(run.outcome, Outcome::Identical { .. }), "{run:?}");
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_draft_that_waits_is_told_as_one() {
    let scene = drafting(&says()).await;
    scene.writes(CONTACT, "l1", "").await;
    let first = only_draft(&scene).await.id;
    let told = told_next(&scene, "l2").await;
    assert!(told.contains(TEXT), "{told}");
    assert!(
        told.contains("The text above is a draft. It waits for your owner and is not sent yet."),
        "{told}"
    );
    // What happens later changes nothing of what was told.
    scene.decide(&first, ApprovalVerdict::Approve, "").await;
    scene.world.app.drain().await;
    verified(&scene).await;
    let told = told_next(&scene, "l3").await;
    assert_eq!(
        told.matches("It waits for your owner").count(),
        1,
        "the second draft: {told}"
    );
    verified(&scene).await;
    scene.world.app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_draft_that_was_discarded_or_edited_is_told_as_that() {
    let scene = drafting(&says()).await;
    scene.writes(CONTACT, "l1", "").await;
    let id = only_draft(&scene).await.id;
    scene
        .decide(&id, ApprovalVerdict::Reject, "she is a nuisance")
        .await;
    let told = told_next(&scene, "l2").await;
    assert!(
        told.contains("You left a draft here. Your owner discarded it; it was not sent."),
        "{told}"
    );
    assert!(
        !told.contains("nuisance"),
        "the owner's words are theirs: {told}"
    );
    let mut waiting = super::scene::drafts(&scene).await;
    waiting.retain(|draft| draft.id != id);
    edits(&scene, &waiting[0].id, "Re: Tuesday", "We meet on Friday.")
        .await
        .expect("edited");
    scene
        .decide(&waiting[0].id, ApprovalVerdict::Approve, "")
        .await;
    scene.world.app.drain().await;
    let told = told_next(&scene, "l3").await;
    assert!(
        told.contains("Your owner changed it; what was sent follows."),
        "{told}"
    );
    assert!(told.contains("We meet on Friday."), "{told}");
    verified(&scene).await;
    scene.world.app.check().await;
}

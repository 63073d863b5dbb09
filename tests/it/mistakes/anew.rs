//! Mistakes chosen anew, after all messages had been mended: of each the file, the place, the cause and the remedy are said.

use super::place::explained;

#[test]
#[ignore = "second tier"]
fn fifty_new_mistakes_are_explained_with_place_cause_and_remedy() {
    explained("anew.txt", 50);
}

package host

import "testing"

func TestACommandReachesItsHostWithAllItsWords(t *testing.T) {
	run := Through("echo to {} by root@{}", "cp-2")
	for _, want := range []string{"one  word", "another"} { // the second shows that the first left nothing behind
		if out, err := run(t.Context(), "do", want); err != nil || string(out) != "to cp-2 by root@cp-2 do "+want+"\n" {
			t.Errorf("got %q, %v", out, err)
		}
	}
	if out, err := Local(t.Context(), "sh", "-c", "echo said; exit 3"); string(out) != "said\n" || ExitCode(err) != 3 {
		t.Errorf("got %q, %v: what a command printed before it failed is lost", out, err)
	}
}

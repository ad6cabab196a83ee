package fence

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/lab/bmc"
)

// peers sets what the agent of a bench hears from its target.
func (b *bench) peers(said *string, err error) {
	b.heard = func(context.Context, string) (string, bool, error) {
		if said == nil || err != nil {
			return "", false, err
		}
		return *said, true, nil
	}
}

func TestTheIdentityOfAPeerIsLearnedWhileItLives(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.dev.UUID, b.dev.Serial = "", ""
	b.write(t)
	said := `{"uuid":"` + testUUID + `","serial":"` + testSerial + `"}`
	b.peers(&said, nil)
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitOK {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	if !strings.Contains(b.published, `"uuid":"own"`) {
		t.Errorf("published %q", b.published)
	}
	b.peers(nil, nil) // it is down now
	b.bmc.SetQuirks(bmc.Quirks{OtherIdentity: true})
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitFailed || b.resets() != "[]" {
		t.Errorf("another machine's BMC: exit %d after %s", code, b.resets())
	}
	b.bmc.SetQuirks(bmc.Quirks{ExtraSystems: 3})
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK || strings.Contains(b.err.String(), "warning") {
		t.Errorf("its own BMC: exit %d: %s", code, b.err.String())
	}
}

func TestTheBMCOfAnotherMachineFailsTheMonitorOnceThePeerIsHeard(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.dev.UUID, b.dev.Serial = "", ""
	b.write(t)
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitOK {
		t.Errorf("before it is heard: exit %d: %s", code, b.err.String())
	}
	said := `{"uuid":"4c4c4544-0051-3310-8051-b7c04f4effff"}`
	b.peers(&said, nil)
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitFailed || !strings.Contains(b.err.String(), "another machine") {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
}

func TestANewBoardIsLearnedAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.dev.UUID, b.dev.Serial = "", ""
	b.write(t)
	for _, said := range []string{`{"uuid":"4c4c4544-0051-3310-8051-b7c04f4effff"}`, `{"uuid":"` + testUUID + `"}`} {
		b.peers(&said, nil)
		b.call(t, "action=monitor", "plug=cp-1")
	}
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitOK {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
}

func TestWithoutPacemakerNothingIsLearnedAndTheMonitorWorks(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.peers(nil, errors.New("attrd does not answer"))
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitOK || !strings.Contains(b.err.String(), "warning: attrd does not answer") {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
	for _, said := range []string{"", "{}", "nonsense", `{"uuid":1}`} {
		b.peers(&said, nil)
		if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitOK || !strings.Contains(b.err.String(), "published value is not an identity") {
			t.Errorf("%q: exit %d: %s", said, code, b.err.String())
		}
	}
}

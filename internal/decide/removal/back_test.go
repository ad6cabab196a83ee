package removal

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/retired"
)

func TestOnlyTheEntryOfTheNodeThatIsThereIsTakenBack(t *testing.T) {
	for _, c := range []struct {
		sentence string
		change   func(*retired.Host)
		goes     bool
		shut     string
	}{
		{"its removal was begun", func(*retired.Host) {}, true, ""},
		{"the name was given again", func(h *retired.Host) { h.Again = now }, false, ""},
		{"another host was taken out", func(h *retired.Host) { h.Name = "w-2" }, false, ""},
		{"the entry is about an earlier Node", func(h *retired.Host) { h.UID = "uid-of-another" }, false, "another"},
		{"the entry knows no Node", func(h *retired.Host) { h.UID = "" }, false, "another"},
		{"it is a control plane", func(h *retired.Host) { h.ControlPlane = true }, false, "plane"},
	} {
		f := worker()
		h := Entry(f, "kim")
		c.change(&h)
		entry, shut := Back(retired.List{h}, f.Node)
		name := ""
		for _, g := range shut {
			name += g.Name
		}
		if (entry != nil) != c.goes || name != c.shut {
			t.Errorf("%s: %v, %v", c.sentence, entry, shut)
		}
	}
	if entry, shut := Back(nil, worker().Node); entry != nil || shut != nil {
		t.Errorf("nobody was taken out: %v, %v", entry, shut)
	}
}

package twonode

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func fixture(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// L33.
func TestAnEmptiedCIBGetsItsConfigurationBackAndKeepsItsStatus(t *testing.T) {
	const status = `<status><node_state id="1" uname="cp-1"/></status>`
	for name, present := range map[string]string{
		"erased":                `<cib epoch="9"><configuration><crm_config/><nodes/><resources/><constraints/></configuration>` + status + `</cib>`,
		"erased to an element":  `<cib epoch="9"><configuration/>` + status + `</cib>`,
		"with a person's parts": strings.Replace(string(fixture(t, "empty.xml")), "</cib>", status+"</cib>", 1),
	} {
		if have, err := ParseCIB([]byte(present)); err != nil || len(Emptied(have)) != 1 || !Emptied(have)[0].Ours {
			t.Errorf("%s: it is not seen: %v", name, err)
		}
		got, err := Restored([]byte(present), fixture(t, "ours.xml"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		have, err := ParseCIB(got)
		if err != nil || !have.Whole() || len(Emptied(have)) > 0 || !strings.Contains(string(got), status) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
		want := cibOf(t, "ours.xml")
		if cmds, err := Steps(have, Wanted(site()).Of(want)); err != nil || len(cmds) > 0 {
			t.Errorf("%s: %v, and it still needs %v", name, err, cmds)
		}
	}
}

func TestOnlyAWholeConfigurationIsWorthACopy(t *testing.T) {
	want := cibOf(t, "ours.xml")
	if !want.Whole() {
		t.Error("the set-up's own is not whole")
	}
	for i, r := range want.Resources {
		less := want
		less.Resources = slices.Delete(slices.Clone(want.Resources), i, i+1)
		if less.Whole() {
			t.Errorf("without %s", r.ID)
		}
	}
	for _, name := range []string{"empty.xml", "half.xml"} {
		if cibOf(t, name).Whole() {
			t.Error(name)
		}
		if _, err := Restored(fixture(t, "empty.xml"), fixture(t, name)); err == nil {
			t.Errorf("%s is put back", name)
		}
	}
	for _, text := range []string{"<cib/>", "", "<configuration>"} {
		if _, err := Restored([]byte(text), fixture(t, "ours.xml")); err == nil {
			t.Errorf("%q has a place for a configuration", text)
		}
	}
}

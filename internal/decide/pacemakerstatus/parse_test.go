package pacemakerstatus

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/corosync"
	"github.com/holdfast/holdfast/internal/state"
)

const corpus = "../../../test/corpus/pacemaker/cases"

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(corpus, name, "cp-1", "crm_mon.xml"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parsed(t *testing.T, name string) Cluster {
	t.Helper()
	c, err := Parse(recorded(t, name), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestHardCase32WhatIsNotAWholeStatusIsRefused(t *testing.T) {
	whole := string(recorded(t, "healthy"))
	bomb := `<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>` + strings.Replace(whole, `name="cp-1"`, `name="&b;"`, 1)
	for name, c := range map[string]struct{ text, want string }{
		"empty":              {"", "it is empty"},
		"white space":        {" \n ", "it is empty"},
		"truncated":          {whole[:len(whole)/2], "unexpected EOF"},
		"without its end":    {strings.TrimSuffix(strings.TrimSpace(whole), "</pacemaker-result>"), "unexpected EOF"},
		"an entity bomb":     {bomb, "a document type is not allowed"},
		"an unknown entity":  {strings.Replace(whole, `name="cp-1"`, `name="&b;"`, 1), "invalid character entity"},
		"too much":           {strings.Repeat(" ", MaxBytes+1), "more than 10485760"},
		"too deep":           {strings.Repeat("<a>", 40) + strings.Repeat("</a>", 40), "more than 16 deep"},
		"too many":           {"<a>" + strings.Repeat("<b/>", maxElements) + "</a>", "more than 50000 elements"},
		"a huge attribute":   {`<a b="` + strings.Repeat("x", maxAttribute+1) + `"/>`, "attribute b has 32769 bytes"},
		"an attribute twice": {`<pacemaker-result a="1" a="2"/>`, "stands twice"},
		"two documents":      {whole + whole, "a second document follows"},
		"words before it":    {"warning: something\n" + whole, "text outside of the document"},
		"another document":   {"<html/>", `it begins with "html"`},
		"no nodes":           {"<pacemaker-result/>", "it is not whole"},
		"a strange boolean":  {strings.Replace(whole, `online="true"`, `online="yes"`, 1), `node cp-1: online is "yes"`},
		"a missing boolean":  {strings.Replace(whole, ` unclean="false"`, "", 1), "node cp-1: unclean is missing"},
		"no role":            {strings.Replace(whole, ` role="Started"`, "", 1), "resource cp-1_redfish: it has no id or no role"},
		"no answer":          {`<pacemaker-result><status code="1" message="Error"/></pacemaker-result>`, "crm_mon says Error"},
	} {
		if _, err := Parse([]byte(c.text), time.UTC); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := Parse(recorded(t, "not-running"), time.UTC); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a cluster that is not running: %v", err)
	}
	unknown := strings.Replace(whole, "<node name=", `<node colour="blue" name=`, 1)
	if _, err := Parse([]byte(unknown), time.UTC); err != nil {
		t.Errorf("an attribute of a later version: %v", err)
	}
}

func TestHardCase33TimesOfEveryVersion(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	want := time.Date(2026, 11, 5, 11, 0, 3, 0, time.UTC)
	for text, wanted := range map[string]time.Time{
		"Thu Nov  5 12:00:03 2026":          want, // local, with padding
		"2026-11-05 11:00:03Z":              want,
		"2026-11-05 12:00:03 +01:00":        want,
		"2026-11-05 12:00:03.500000 +01:00": want.Add(500 * time.Millisecond),
		"2026-11-05 11:00:03.500000Z":       want.Add(500 * time.Millisecond),
		"2026-11-05T11:00:03Z":              want,
		"2026-11-05 12:00:03":               want, // local
		"":                                  {},
		"yesterday":                         {},
	} {
		r := reader{local: berlin}
		if got := r.time(text); !got.Equal(wanted) {
			t.Errorf("%q: %v, want %v", text, got, wanted)
		}
	}
}

func TestAFailedActionNamesItsResource(t *testing.T) {
	for key, want := range map[string]string{
		"kubelet_start_0": "kubelet", "etcd_monitor_3000": "etcd", "cp-2_redfish_monitor_60000": "cp-2_redfish", "odd": "odd",
	} {
		if got := resourceOf(key, ""); got != want {
			t.Errorf("%s: %s", key, got)
		}
	}
	if got := resourceOf("a_migrate_to_0", "migrate_to"); got != "a" {
		t.Errorf("an action with a line: %s", got)
	}
}

// Pacemaker lists an operation while it is under way, as it did in the lab each
// time a fenced host was back.
func TestAnOperationThatIsUnderWayHasNoOutcome(t *testing.T) {
	const ended = `call="16" task="monitor" rc="0" rc_text="ok"`
	was := string(recorded(t, "lab-pair"))
	if strings.Count(was, ended) != 1 {
		t.Fatal("the recorded state has changed")
	}
	for _, pending := range []string{`call="-1" task="monitor" rc="193" rc_text="unknown"`, `call="-1" task="monitor" rc="-1" rc_text="unknown"`} {
		c, err := Parse([]byte(strings.Replace(was, ended, pending, 1)), time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		in := input(t, "lab-pair")
		in.Cluster = state.Known(c)
		if got := find(node(t, in, "cp-2").Conditions, FencingProven); got.Reason != ReasonPeerReaches {
			t.Errorf("%s: %+v", pending, got)
		}
	}
}

func TestAddressesAreCanonical(t *testing.T) {
	conf := corosync.Conf{Nodes: []corosync.Node{{Name: "cp-1", Addresses: []string{"2001:DB8:0::1", "10.1.0.1"}}}}
	got := view{Input: Input{Corosync: state.Known(conf)}}.addresses("cp-1")
	if len(got) != 2 || got[0].Address != "2001:db8::1" {
		t.Error(got)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"healthy", "lost-fence-failed", "bundle", "version-3-etcd-failed", "not-running"} {
		f.Add(recorded(f, name))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text, time.UTC)
		if err != nil {
			return
		}
		in := Input{Host: "cp-1", Cluster: state.Known(c), Addresses: map[string][]string{}}
		for _, n := range c.Nodes {
			in.Addresses[n.Name] = []string{"10.0.0.1"}
		}
		acceptable(t, Status(in))
	})
}

func FuzzParseCorosync(f *testing.F) {
	f.Add([]byte("nodelist {\n node {\n  ring0_addr: 10.0.0.1\n }\n}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := corosync.Parse(text)
		if err == nil {
			acceptable(t, Status(Input{Host: "cp-1", Corosync: state.Known(c)}))
		}
	})
}

package crmmon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

func TestAFailedProbeWithoutACodeIsAFailure(t *testing.T) {
	for code, expected := range map[string]bool{`exitcode="7"`: true, `exitcode="0"`: true, `exitcode="1"`: false, `exitcode="?"`: false, ``: false} {
		list := `<failures><failure op_key="etcd_monitor_0" node="cp-1" ` + code + ` exitstatus="error" call="5" status="complete"/></failures>`
		c, err := Parse([]byte(strings.Replace(string(recorded(t, "healthy")), "</pacemaker-result>", list+"</pacemaker-result>", 1)), time.UTC)
		if err != nil || len(c.Failures) != 1 {
			t.Fatalf("%s: %v, %+v", code, err, c.Failures)
		}
		if got := c.Failures[0].Expected(); got != expected {
			t.Errorf("%s: expected %v", code, got)
		}
	}
}

func TestHardCase33TimesAroundAChangeOfTheClock(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skipf("NOT TESTED: no time zones on this machine: %v", err)
	}
	r := reader{local: berlin}
	// The hour that comes twice may be read as either, but not as another day.
	first := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)
	if got := r.time("Sun Oct 25 02:30:00 2026"); !got.Equal(first) && !got.Equal(first.Add(time.Hour)) {
		t.Errorf("the hour that comes twice: %v", got)
	}
	// The hour that never was: a clock that is set by hand may show it.
	if got := r.time("Sun Mar 29 02:30:00 2026"); got.Before(time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)) || got.After(time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC)) {
		t.Errorf("the hour that never was: %v", got)
	}
	// A time with its offset is the same wherever it is read.
	for _, zone := range []*time.Location{berlin, time.UTC, time.FixedZone("", -9*3600)} {
		if got := (&reader{local: zone}).time("2026-10-25 02:30:00 +02:00"); !got.Equal(first) {
			t.Errorf("%s: %v", zone, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"healthy", "bundle", "version-3-etcd-failed", "not-running"} {
		f.Add(recorded(f, name))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text, time.UTC)
		if err != nil && len(c.Nodes)+len(c.Resources) > 0 {
			t.Errorf("%q: half a status and %v", text, err)
		}
	})
}

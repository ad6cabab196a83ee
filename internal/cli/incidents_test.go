package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/incident"
)

// twoIncidents returns one incident that is over and one that is not.
func twoIncidents() []decide.Incident {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	rec := func(second float64, r decide.Record) decide.Record {
		d := time.Duration(second * float64(time.Second))
		r.Host, r.Boot, r.Up, r.At, r.From = "cp-1", "b", d+time.Hour, at.Add(d), "journal of podman-etcd"
		return r
	}
	members := func(second float64, ring uint64, names ...string) decide.Record {
		return rec(second, decide.Record{Kind: decide.Members, Members: names, Ring: ring, Quorate: true})
	}
	record := func(second float64, s state.EtcdState, seq uint64) decide.Record {
		return rec(second, decide.Record{Kind: decide.Recorded, State: s, Seq: seq, Rule: "x.y", Why: "so it is"})
	}
	return decide.Assemble([]decide.Record{
		members(-100, 1, "cp-1", "cp-2"), record(-99, state.EtcdPair, 1),
		members(1, 2, "cp-1"), record(2, state.EtcdSole, 2), members(20, 3, "cp-1", "cp-2"), record(22, state.EtcdPair, 3),
		members(3600, 4, "cp-1"), record(3602, state.EtcdSole, 4),
	})
}

// incidentsOn runs the command with an API and a host's folder.
func incidentsOn(t *testing.T, dir string, api func(context.Context, kube.Access) (incident.List, error), args ...string) (string, error) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "kubeconfig"))
	var out bytes.Buffer
	cmd := newIncidentsWith(Streams{Out: &out}, &incidentsFrom{dir: dir, api: api})
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func answeringAPI(context.Context, kube.Access) (incident.List, error) {
	return incident.List{Source: "API", Incidents: incident.Newest(twoIncidents())}, nil
}

func silentAPI(context.Context, kube.Access) (incident.List, error) {
	return incident.List{}, errors.New("connection refused")
}

func TestIncidentsAreListedTheNewestFirst(t *testing.T) {
	got, err := incidentsOn(t, t.TempDir(), answeringAPI)
	lines := strings.Split(got, "\n")
	if err != nil || len(lines) < 3 || !strings.HasPrefix(lines[1], "1  2026-11-20 10:00:00Z  cp-2 was lost: not over") || !strings.HasPrefix(lines[2], "2  2026-11-20 09:00:01Z") {
		t.Errorf("%v\n%s", err, got)
	}
	if wide, err := incidentsOn(t, t.TempDir(), answeringAPI, "list", "-o", "wide"); err != nil || !strings.Contains(wide, "20261120-100000-cp-2") {
		t.Errorf("%v\n%s", err, wide)
	}
	var l incident.List
	data, err := incidentsOn(t, t.TempDir(), answeringAPI, "-o", "json")
	if err != nil || json.Unmarshal([]byte(data), &l) != nil || len(l.Incidents) != 2 {
		t.Errorf("%v\n%s", err, data)
	}
}

func TestAnIncidentIsShownByItsNumberOrItsID(t *testing.T) {
	for _, which := range []string{"2", "20261120-090001-cp-2", "20261120-0900"} {
		got, err := incidentsOn(t, t.TempDir(), answeringAPI, "show", which)
		if err != nil || !strings.Contains(got, "etcd on cp-1 took writes again") || !strings.Contains(got, "over after 21s") {
			t.Errorf("%s: %v\n%s", which, err, got)
		}
	}
	if got, err := incidentsOn(t, t.TempDir(), answeringAPI, "show"); err != nil || !strings.Contains(got, "cp-2 was lost: not over") {
		t.Errorf("without a number: %v\n%s", err, got)
	}
	for _, which := range []string{"3", "0", "20261120", "yesterday"} {
		if _, err := incidentsOn(t, t.TempDir(), answeringAPI, "show", which); err == nil || !strings.Contains(err.Error(), which) {
			t.Errorf("%s: %v", which, err)
		}
	}
}

func TestWithoutAnAPITheReportsOfTheHostAreShownAndThatIsSaid(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "incidents")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := incident.Write(dir, twoIncidents()[:1]); err != nil {
		t.Fatal(err)
	}
	got, err := incidentsOn(t, dir, silentAPI)
	if err != nil || !strings.Contains(got, "lost contact with each other") || !strings.Contains(got, "note: the API could not be read (connection refused)") {
		t.Errorf("%v\n%s", err, got)
	}
	if got, err := incidentsOn(t, dir, answeringAPI, "--files"); err != nil || strings.Contains(got, "10:00:00Z") || strings.Contains(got, "note:") {
		t.Errorf("--files: %v\n%s", err, got)
	}
	if _, err := incidentsOn(t, filepath.Join(dir, "none"), silentAPI); err == nil || !strings.Contains(err.Error(), "--files") {
		t.Errorf("elsewhere: %v", err)
	}
	if _, err := incidentsOn(t, dir, silentAPI, "--kubeconfig", noAPI(t)); err == nil {
		t.Error("who names a cluster does not want the reports of this host")
	}
}

func TestIncidentsAreReadFromOnePlace(t *testing.T) {
	_, err := incidentsOn(t, t.TempDir(), answeringAPI, "--files", "--lab", "x")
	if _, usage := errors.AsType[*UsageError](err); !usage {
		t.Errorf("%v", err)
	}
}

func TestAHostWithoutIncidentsSaysSo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	got, err := incidentsOn(t, dir, answeringAPI, "--files")
	if err != nil || !strings.Contains(got, "no incidents recorded") || !strings.Contains(got, dir) {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := incidentsOn(t, dir, answeringAPI, "show", "--files"); err == nil {
		t.Error("there is nothing to show")
	}
}

package state

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func record() EtcdRecord {
	return EtcdRecord{
		State: EtcdTakingOver, Seq: 7, Cluster: 0xc1, Member: 0xa1,
		TakeOver: EtcdTakeOver{ID: "r4nd0m", Counter: 2},
		Written:  time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC),
		Proof:    EtcdProof{Kind: ProofFenced, Detail: "BMC of beta said Off"},
		Forced:   EtcdForced{Who: "ops", Why: "beta burnt"},
	}
}

func TestARecordReadsBackAsItWasWritten(t *testing.T) {
	b, err := EncodeEtcdRecord(record())
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeEtcdRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(record(), got); diff != "" {
		t.Error(diff)
	}
}

func TestATornRecordIsNoticedAtEveryByte(t *testing.T) {
	b, err := EncodeEtcdRecord(record())
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(b) - 1 { // the last byte is the newline
		if r, err := DecodeEtcdRecord(b[:n]); err == nil {
			t.Errorf("the first %d bytes were read as %+v", n, r)
		}
		if r, err := DecodeEtcdRecord(append(bytes.Clone(b[:n]), make([]byte, len(b)-n)...)); err == nil {
			t.Errorf("zeros from byte %d on were read as %+v", n, r)
		}
	}
}

func TestARecordThatIsNotUnderstoodIsNotRead(t *testing.T) {
	b, err := EncodeEtcdRecord(record())
	if err != nil {
		t.Fatal(err)
	}
	wrap := func(body string) string {
		out, _ := json.Marshal(etcdRecordFile{1, sum([]byte(body)), json.RawMessage(body)})
		return string(out)
	}
	for name, c := range map[string]struct{ file, want string }{
		"empty":              {"", "torn"},
		"a newer version":    {strings.Replace(string(b), `"version":1`, `"version":2`, 1), "version 2"},
		"changed by hand":    {strings.Replace(string(b), `"taking-over"`, `"sole"`, 1), "checksum"},
		"another form":       {wrap(`{"state":["none"],"seq":1,"written":"2026-01-01T00:00:00Z"}`), "newer holdfast"},
		"an unknown state":   {wrap(`{"state":"king","seq":1,"written":"2026-01-01T00:00:00Z"}`), "unknown"},
		"no member":          {wrap(`{"state":"pair","seq":1,"written":"2026-01-01T00:00:00Z"}`), "no member"},
		"an unnamed attempt": {wrap(`{"state":"taking-over","seq":1,"member":"a","cluster":"b","written":"2026-01-01T00:00:00Z"}`), "no id"},
		"two records":        {string(b) + string(b), "torn"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := DecodeEtcdRecord([]byte(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

func TestARecordOfALaterReleaseWithAFieldMoreIsReadWithoutIt(t *testing.T) {
	body, err := json.Marshal(record())
	if err != nil {
		t.Fatal(err)
	}
	body = append(bytes.TrimSuffix(body, []byte("}")), `,"lease":3,"later":{"a":[1]}}`...)
	file, err := json.Marshal(map[string]any{"version": etcdRecordVersion, "sha256": sum(body), "record": json.RawMessage(body), "by": "v0.9.0"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeEtcdRecord(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(record(), got); diff != "" {
		t.Error(diff)
	}
}

func TestTheFormsOfEtcdsRecordAndOfAStatementAreThoseThatOtherReleasesRead(t *testing.T) {
	b, err := EncodeEtcdRecord(record())
	if err != nil {
		t.Fatal(err)
	}
	form(t, "etcd-record-1.json", b)
	st, err := json.MarshalIndent(statement(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	form(t, "statement-1.json", append(st, '\n'))
}

// form compares with a file that a release has written. It is no golden file, which
// -update rewrites: under the same number it never changes.
func form(t *testing.T, name string, got []byte) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("releases that read %s know another form (-known +written): give it the next number, and write that at the commit only\n%s", name, diff)
	}
}

func statement() EtcdStatement {
	return EtcdStatement{
		Boot: "b", Serial: 4, Ring: 9, SeenSeq: 6, Record: record(), Data: Known(EtcdData{}), Running: Known(true), Leads: true,
		Members: Known([]EtcdMember{}), Stalled: time.Second, Sick: "disk", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
	}
}

func TestAStatementOfALaterReleaseIsReadOrUnknownButNeverAnotherOne(t *testing.T) {
	good, err := json.Marshal(statement())
	if err != nil {
		t.Fatal(err)
	}
	with := func(field string) string { return strings.TrimSuffix(string(good), "}") + "," + field + "}" }
	for name, c := range map[string]struct {
		text string
		want string // of the error, empty if it is read
	}{
		"the present form":  {string(good), ""},
		"the same number":   {with(`"format":1`), ""},
		"a field more":      {with(`"lease":3`), ""},
		"a higher number":   {with(`"format":2`), "a later release"},
		"an unknown state":  {strings.Replace(string(good), `"taking-over"`, `"king"`, 1), `"king"`},
		"an empty one":      {`{}`, ""},
		"another form":      {`{"boot":7}`, "cannot unmarshal"},
		"what nobody wrote": {`x`, "invalid character"},
	} {
		got, err := DecodeEtcdStatement([]byte(c.text))
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case err != nil && !reflect.DeepEqual(got, EtcdStatement{}):
			t.Errorf("%s: something of it was taken: %+v", name, got)
		}
	}
}

func FuzzDecodeEtcdRecord(f *testing.F) {
	b, _ := EncodeEtcdRecord(record())
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeEtcdRecord(b)
		if err != nil {
			return
		}
		if _, err := EncodeEtcdRecord(r); err != nil {
			t.Errorf("%+v was read and cannot be written: %v", r, err)
		}
	})
}

func TestUnknownIsNull(t *testing.T) {
	type box struct {
		A Fact[bool] `json:"a"`
		B Fact[bool] `json:"b"`
	}
	b, err := json.Marshal(box{A: Known(false)})
	if err != nil || string(b) != `{"a":false,"b":null}` {
		t.Fatalf("%s, %v", b, err)
	}
	var got box
	if err := json.Unmarshal(b, &got); err != nil || got != (box{A: Known(false)}) {
		t.Errorf("%+v, %v", got, err)
	}
	if Is(got.B, false) || !Is(got.A, false) {
		t.Error("unknown must not be no")
	}
}

package redfish

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/holdfast/holdfast/internal/model/secret"
)

// FuzzAnswer reads any answer as each of the resources that are requested.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		whole, `{"Members":[{"@odata.id":"/redfish/v1/Systems/1"},"/x",7,null],"Members@odata.nextLink":"?$skip=1"}`,
		`{"Parameters":[{"Name":"ResetType","AllowableValues":["On",1]}]}`, `{"PowerState":["Off"],"UUID":7}`, "\xef\xbb\xbf{}", "[]", "null", "",
		`{"@odata.id":"https://elsewhere/redfish/v1/SessionService/Sessions/1"}`, `{"PowerState":"Off","powerstate":"On"}`,
	} {
		f.Add([]byte(seed))
	}
	zoo, _ := filepath.Glob("testdata/zoo/*") // the pattern is well formed
	for _, path := range zoo {
		if data, err := os.ReadFile(path); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		answer, err := parse(body)
		if err != nil {
			if answer != nil {
				t.Errorf("%q is refused, and read as %v", body, answer)
			}
			return
		}
		s, _ := systemOf(answer)
		var word string
		if said := json.Unmarshal(answer["PowerState"], &word); s.power == Off && (said != nil || word != "Off") {
			t.Errorf("%q is read as off", body)
		}
		links := []string{s.reset, s.actionInfo, answer.link("@odata.id"), answer.link("Members@odata.nextLink")}
		for _, raw := range answer.list("Members") {
			links = append(links, (fields{"": raw}).link(""))
		}
		for _, l := range links {
			if l != "" && !strings.HasPrefix(l, "/") {
				t.Errorf("%q leads to %q, which is no path of the service", body, l)
			}
		}
		for _, r := range append(namedIn(answer), s.offered...) {
			if r == "" {
				t.Errorf("%q offers a reset without a name", body)
			}
		}
	})
}

// FuzzIdentity compares what a host reports of itself with what a controller
// reports.
func FuzzIdentity(f *testing.F) {
	f.Add(testUUID, testSerial, testUUID, testSerial, "", "")
	f.Add("03000200-0400-0500-0006-000700080009", "Default string", "00020003-0004-0005-0006-000700080009", "none", "", "x")
	f.Add("", "CZJ123", "", "", "czj123", "CZJ123")
	f.Add("44454c4c-5100-1033-8051-b7c04f4e3132", "", testUUID, "", "", "")
	f.Fuzz(func(t *testing.T, uuid, serial, reportedUUID, reportedSerial, sku, word string) {
		reports := Machine{UUID: reportedUUID, Serial: reportedSerial, SKU: sku}
		err := SameMachine(uuid, serial, reports)
		if err == nil && (uuid != "" || serial != "") {
			sameID := RealUUID(uuid) != "" && sameUUID(RealUUID(uuid), reportedUUID)
			sameNumber := RealSerial(serial) != "" && (reported{serials: serialsOf(reportedSerial, sku)}).has(RealSerial(serial))
			if !sameID && !sameNumber {
				t.Errorf("%q %q is %+v", uuid, serial, reports)
			}
			if RealUUID(uuid) != "" && RealUUID(reportedUUID) != "" && !sameID {
				t.Errorf("two UUIDs contradict each other: %q, %q", uuid, reportedUUID)
			}
		}
		if RealUUID(uuid) != "" && SameMachine(uuid, serial, Machine{UUID: uuid, Serial: serial}) != nil {
			t.Errorf("%q %q is not itself", uuid, serial)
		}
		if sameUUID(uuid, reportedUUID) != sameUUID(reportedUUID, uuid) {
			t.Errorf("%q and %q are the same one way round", uuid, reportedUUID)
		}
		if word != "" {
			named := Endpoint{SystemID: word}.meant(reportedUUID, reportedSerial, sku)
			if named == nil && RealUUID(reportedUUID) == "" && RealSerial(reportedSerial) == "" && RealSerial(sku) == "" {
				t.Errorf("what a vendor left is named by %q: %+v", word, reports)
			}
		}
	})
}

// FuzzWords lets a controller say anything, including the account.
func FuzzWords(f *testing.F) {
	f.Add("not understood by u: S3cr3t-battery", "u", "S3cr3t-battery")
	f.Add("a\x1b[2Jb\nc", "", "p")
	f.Add("<redacted><redacted>", "redacted", "ed")
	f.Fuzz(func(t *testing.T, text, user, password string) {
		e := Endpoint{Username: user, Password: secret.Text(password)}
		line := oneLine(text)
		if len(line) > maxWords+len("...") || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q became %q", text, line)
		}
		said := e.scrub(text)
		// A password that is part of the mark cannot be distinguished from it.
		if len(password) >= longSecret && !strings.Contains(redacted, password) && strings.Contains(strings.ReplaceAll(said, redacted, ""), password) && strings.Contains(said, password) {
			t.Errorf("%q still tells %q", said, password)
		}
	})
}

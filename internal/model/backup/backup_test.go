package backup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
)

func key(t *testing.T) string {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id.Recipient().String()
}

const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDIhz2GK/XCUj4i6Q5yQJNL1MKMY6tZ3hHYLzrRfEwxZ"

func TestTheNameOfABackupLeadsOutOfNoFolder(t *testing.T) {
	at := time.Date(2026, 11, 25, 3, 15, 0, 0, time.FixedZone("x", 3600))
	id := NewID("cp-1.example.com", at)
	if id != "20261125T021500Z-cp-1.example.com" || !ValidID(id) {
		t.Errorf("%s", id)
	}
	for _, bad := range []string{"", "..", "20261125T021500Z-", "20261125T021500Z-a/b", "20261125T021500Z-a..b", "20261325T021500Z-a", "x20261125T021500Z-a", "20261125T021500Z-a\n"} {
		if ValidID(bad) {
			t.Errorf("%q passes", bad)
		}
	}
}

const wholeConfig = `
schedule: "0 3 * * *"
timeZone: Europe/Berlin
keep: 5
recipients: [KEY]
targets:
- name: nas
  directory: {path: /mnt/nas}
- name: far
  s3: {endpoint: https://s3.example.com, bucket: backups, prefix: shops, accessKey: A, secretKey: S3cr3t-x}
- name: attic
  sftp: {server: "attic.example.com:2022", user: shop, hostKeys: ["HOST"], password: S3cr3t-y, path: /srv/shop}
`

func whole(t *testing.T) string {
	return strings.NewReplacer("KEY", key(t), "HOST", hostKey).Replace(wholeConfig)
}

func TestAConfigurationIsReadBackAsItWasAndShowsNoSecret(t *testing.T) {
	c, err := Parse([]byte(whole(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Keep != 5 || c.Targets[0].Directory.Marker != DefaultMarker {
		t.Errorf("%+v", c)
	}
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again.Targets[1].S3.SecretKey.Reveal() != "S3cr3t-x" || again.Targets[2].SFTP.Password.Reveal() != "S3cr3t-y" {
		t.Error("a secret is lost")
	}
	r := Request{ID: NewID("cp-1", time.Unix(0, 0)), Site: "s", Host: "cp-1", Recipients: c.Recipients, Targets: c.Targets, Limits: Limits{Total: time.Hour}}
	for _, shown := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v %d", c, c, c), fmt.Sprintf("%+v %v", r, &r), fmt.Sprintf("%x %v", *c.Targets[1].S3, c.Targets[2].SFTP), fmt.Sprint(c.Targets)} {
		if strings.Contains(shown, "S3cr3t") || strings.Contains(shown, "533363") {
			t.Errorf("%s", shown)
		}
	}
	coded, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeRequest(append(coded, []byte("newer: field\n")...))
	if err != nil {
		t.Fatal(err)
	}
	if back.Targets[1].S3.SecretKey.Reveal() != "S3cr3t-x" || back.Limits.Total != time.Hour {
		t.Errorf("%v", back)
	}
}

func TestAnEmptyConfigurationIsTheDefaults(t *testing.T) {
	c, err := Parse(nil, func(_, _ string) error { return errors.New("nobody gave a schedule") })
	if err != nil || c.Keep != DefaultKeep || len(c.Targets) != 0 {
		t.Errorf("%v %v", c, err)
	}
}

func TestEveryMistakeOfAConfigurationIsToldAtOnceWithItsPathAndNoValue(t *testing.T) {
	text := `
schedule: never
keep: -1
retention: 5
recipients: [AGE-SECRET-KEY-1S3cr3t, S3cr3t, ` + strings.Repeat(key(t)+", ", 1) + `]
targets:
- name: A
  directory: {path: relative, marker: a/b}
- name: nas
  directory: {path: ` + Dir + `/x}
- name: nas
  s3: {endpoint: "https://user:S3cr3t@s3.example.com", bucket: B, prefix: /x, accessKey: 7, ca: none}
- name: attic
  sftp: {server: "a b", user: "", hostKeys: [S3cr3t], password: S3cr3t, privateKey: S3cr3t, path: ..}
- name: key
  sftp: {server: "[fd00::1]:22", user: u, hostKeys: [], privateKey: S3cr3t, path: /srv}
- name: both
  directory: {path: /mnt/a}
  s3: {endpoint: https://s3.example.com, bucket: backups, accessKey: A, secretKey: B}
- name: none
`
	_, err := Parse([]byte(text), func(text, _ string) error { return fmt.Errorf("the schedule is %q", text) })
	var m Mistakes
	if !errors.As(err, &m) {
		t.Fatal(err)
	}
	var paths []string
	for _, e := range m {
		paths = append(paths, e.Field)
	}
	want := []string{
		"keep", "recipients[0]", "recipients[1]", "retention", "schedule",
		"targets[0].directory.marker", "targets[0].directory.path", "targets[0].name", "targets[1].directory.path",
		"targets[2].name", "targets[2].s3.accessKey", "targets[2].s3.bucket", "targets[2].s3.ca", "targets[2].s3.endpoint", "targets[2].s3.prefix", "targets[2].s3.secretKey",
		"targets[3].sftp", "targets[3].sftp.hostKeys[0]", "targets[3].sftp.path", "targets[3].sftp.server", "targets[3].sftp.user",
		"targets[4].sftp.hostKeys", "targets[4].sftp.privateKey", "targets[5]", "targets[6]",
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("%s\n%v", diff, err)
	}
	if strings.Contains(err.Error(), "S3cr3t") {
		t.Errorf("%v", err)
	}
}

func TestAKeyOfAServerIsReadInEachFormInWhichPeopleHaveIt(t *testing.T) {
	const printed = "SHA256:tujdUdNSzjIqBiJjDwtzQs2/zwHDHwel9Z6oCScY3AU"
	for text, kind := range map[string]string{
		hostKey:                                "ssh-ed25519",
		hostKey + " root@attic\n":              "ssh-ed25519",
		"attic.example.com " + hostKey:         "ssh-ed25519",
		"[2001:db8::1]:2022 " + hostKey:        "ssh-ed25519",
		"|1|c2FsdA==|aGFzaA== " + hostKey:      "ssh-ed25519",
		"# attic:22 SSH-2.0\nattic " + hostKey: "ssh-ed25519",
		printed:                                "",
	} {
		got, err := ParseHostKey(text)
		if err != nil || got.Kind != kind || got.Fingerprint != printed {
			t.Errorf("%q: %+v %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "attic", printed[:len(printed)-1], printed + "=", "MD5:00:11", "@revoked attic " + hostKey, "@cert-authority *.example.com " + hostKey,
		hostKey + "\n" + hostKey, "attic " + hostKey + "\nattic " + hostKey, "ssh-rsa " + strings.Fields(hostKey)[1],
	} {
		if got, err := ParseHostKey(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestATargetWithoutARecipientIsAMistake(t *testing.T) {
	_, err := Parse([]byte("targets: [{name: nas, directory: {path: /mnt/nas}}]"), nil)
	if err == nil || !strings.Contains(err.Error(), "recipients: Required value: there are targets, and backups leave a host only encrypted") {
		t.Errorf("%v", err)
	}
	if _, err := DecodeRequest([]byte("{id: 20261125T021500Z-a, site: s, host: a, targets: [{name: nas}]}")); err == nil {
		t.Error("the child would send it in clear text")
	}
}

func TestASingleRecipientAndNoTargetAreWarnedOf(t *testing.T) {
	c, err := Parse([]byte(whole(t)), nil)
	if err != nil || len(c.Warnings()) != 1 || !strings.HasPrefix(c.Warnings()[0], "recipients: ") {
		t.Errorf("%v %v", c.Warnings(), err)
	}
	if w := (Config{}).Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "targets: ") {
		t.Errorf("%v", w)
	}
}

func TestAnEntryIsGoodByItsChecksAlone(t *testing.T) {
	ok := Check{Name: "hash", OK: true}
	for name, c := range map[string]struct {
		checks []Check
		good   bool
	}{"no checks": {nil, false}, "all passed": {[]Check{ok, ok}, true}, "one failed": {[]Check{ok, {Name: "restore"}}, false}} {
		e := Entry{Format: Format, ID: "20261125T021500Z-a", Checks: c.checks, Good: true}
		text, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		read, err := DecodeEntry(text)
		if err != nil || read.Good != c.good || (read.Why() == "") != c.good {
			t.Errorf("%s: %v %v", name, read, err)
		}
	}
}

func TestAnEntryOfANewerFormatIsRefused(t *testing.T) {
	if _, err := DecodeEntry([]byte(`{"format":2,"id":"20261125T021500Z-a"}`)); err == nil || !strings.Contains(err.Error(), "with the release that wrote it") {
		t.Errorf("%v", err)
	}
}

func TestACopyIsThereOnceItWasReadBack(t *testing.T) {
	e := Entry{}.WithCopy(Copy{Target: "nas", Failed: "full"})
	if e.Has("nas") {
		t.Error("a failed copy counts")
	}
	e = e.WithCopy(Copy{Target: "nas", Verified: time.Unix(1, 0)})
	if !e.Has("nas") || len(e.Copies) != 1 {
		t.Errorf("%v", e.Copies)
	}
}

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// made returns entries, each so many hours old: "5" is a good one of the schedule, "5p"
// one that a person wanted, "5!" a bad one, "5@nas" one with a copy at the target nas.
func made(specs ...string) []Entry {
	var out []Entry
	for _, s := range specs {
		var hours int
		_, _ = fmt.Sscanf(s, "%d", &hours)
		at := noon.Add(-time.Duration(hours) * time.Hour)
		e := Entry{ID: NewID("cp-1", at), Host: "cp-1", Taken: at, Reason: BySchedule, Good: !strings.HasSuffix(s, "!")}
		if strings.Contains(s, "p") {
			e.Reason = ByPerson
		}
		for _, name := range []string{"nas", "bucket"} {
			if strings.Contains(s, "@"+name) {
				e = e.WithCopy(Copy{Target: name, Verified: at})
			}
		}
		out = append(out, e)
	}
	return out
}

func TestRetention(t *testing.T) {
	for name, c := range map[string]struct {
		have []string
		go_  []string // hours
	}{
		"nothing":                {nil, nil},
		"as many as wanted stay": {[]string{"1", "25"}, nil},
		"the oldest go, whatever their order in the list":     {[]string{"49", "1", "73", "25"}, []string{"73", "49"}},
		"bad ones count for none":                             {[]string{"1!", "25", "49"}, nil},
		"a bad one goes once a newer one is good":             {[]string{"1", "25!", "49"}, []string{"25"}},
		"bad ones are kept while there is no good one":        {[]string{"1!", "2!", "3!"}, nil},
		"those of a person do not displace those of the plan": {[]string{"1p", "2p", "3p", "4p", "25", "49"}, []string{"4", "3"}},
		"nothing goes if the newest good one is old":          {[]string{"60", "84", "108", "132!"}, nil},
		"a bad new one does not make the good ones young":     {[]string{"1!", "60", "84", "108"}, nil},
		"a clock that was ahead removes no more than usual":   {[]string{"-9000", "1", "25"}, nil},
		"nor what is made after it":                           {[]string{"-9000", "-9001", "-9002", "1", "25", "49"}, []string{"49", "-9000"}},
		"one of a clock that was ahead is not young":          {[]string{"-9000", "60", "84", "108", "132!"}, nil},
		"the last copy at a target stays":                     {[]string{"1", "25", "49", "73@nas", "97@nas"}, []string{"97", "49"}},
		"so does that at each target":                         {[]string{"1@nas", "25@nas", "49@nas", "73@bucket@nas", "97@bucket"}, []string{"97", "49"}},
		"a copy at a target that is none any more does not":   {[]string{"1", "25", "49@former"}, []string{"49"}},
		"a bad one with a copy goes":                          {[]string{"1", "25", "49@nas!"}, []string{"49"}},
		"nor does a clock that was ahead remove that":         {[]string{"-9000@nas", "1", "25", "49@nas"}, nil},
		"of such a clock alone it stays, too":                 {[]string{"-9000", "-8999", "-8998@nas", "-8997@nas", "1"}, []string{"-8997"}},
	} {
		entries := made(c.have...)
		entries = append(entries, Entry{ID: NewID("cp-2", noon), Host: "cp-2", Taken: noon.Add(-9999 * time.Hour)})
		got := Retention(entries, Policy{Host: "cp-1", Keep: 2, Targets: []string{"nas", "bucket"}, Period: 24 * time.Hour, Now: noon})
		var want []string
		for _, h := range c.go_ {
			want = append(want, made(h)[0].ID)
		}
		if diff := cmp.Diff(want, got.Go); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if (got.Kept != "") != slices.Contains([]string{"nothing goes if the newest good one is old", "a bad new one does not make the good ones young", "one of a clock that was ahead is not young"}, name) {
			t.Errorf("%s: %q", name, got.Kept)
		}
	}
}

func TestRetentionNeverTakesTheLastGoodOneOfAnyNumber(t *testing.T) {
	for keep := -1; keep < 4; keep++ {
		for n := 1; n < 7; n++ {
			for bad := range 1 << n {
				var specs []string
				for i := range n {
					mark := ""
					if bad>>i&1 == 1 {
						mark = "!"
					}
					specs = append(specs, fmt.Sprint(24*i+1)+mark)
				}
				entries := made(specs...)
				got := Retention(entries, Policy{Host: "cp-1", Keep: keep, Period: 24 * time.Hour, Now: noon})
				left, goodBefore, goodAfter := 0, 0, 0
				for _, e := range entries {
					stays := !slices.Contains(got.Go, e.ID)
					if stays {
						left++
					}
					if e.Good {
						goodBefore++
						if stays {
							goodAfter++
						}
					}
				}
				if goodAfter < min(goodBefore, max(keep, 1)) || left == 0 {
					t.Fatalf("keep %d of %v: %v go", keep, specs, got.Go)
				}
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("targets: [{name: x, s3: {secretKey: S3cr3t-9}}]"))
	f.Add([]byte("S3cr3t-9: {"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data, nil)
		if err != nil {
			return
		}
		text, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(text, nil); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}

package cli

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/adapter/backup/target"
	"github.com/holdfast/holdfast/internal/cli/command"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// bucketWithBackup is a bucket with one good backup, its entry, and an archive without an entry. It
// returns the configuration of backups and the private key.
func bucketWithBackup(t *testing.T) (targets, key, id string) {
	t.Helper()
	store := s3mem.New()
	if err := store.CreateBucket("shop-1"); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewTLSServer(gofakes3.New(store).Server())
	t.Cleanup(s.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	_, sent, key := backupFiles(t)
	id = strings.TrimSuffix(filepath.Base(sent), model.SentSuffix)
	recipient, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	identity, err := age.ParseX25519Identity(strings.TrimSpace(string(recipient)))
	if err != nil {
		t.Fatal(err)
	}
	config := model.Config{Recipients: []string{identity.Recipient().String()}, Targets: []model.Target{{
		Name: "far", S3: &model.S3{Endpoint: s.URL, Bucket: "shop-1", Prefix: "all", Region: "us-east-1", AccessKey: "A", SecretKey: "S3cr3t-account", CA: ca},
	}}}
	text, err := config.Encode()
	if err != nil {
		t.Fatal(err)
	}
	targets = filepath.Join(t.TempDir(), "backups.yaml")
	if err := os.WriteFile(targets, text, 0o600); err != nil {
		t.Fatal(err)
	}
	putBackup(t, config.Targets[0], sent, id)
	return targets, key, id
}

func putBackup(t *testing.T, where model.Target, sent, id string) {
	t.Helper()
	to, err := target.Open(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = to.Close() }()
	file, err := archive.Digest(t.Context(), sent)
	if err != nil {
		t.Fatal(err)
	}
	e := model.Entry{
		Format: model.Format, ID: id, Site: "shop.example.com", Host: "cp-1", Taken: time.Now().Add(-time.Hour), Reason: model.BySchedule,
		Checks: []model.Check{{Name: "sum", OK: true}}, Copies: []model.Copy{{Target: "far", File: file, Verified: time.Now()}},
	}.Judge()
	entry, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(sent)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		model.SentName(e.Site, e.Host, id): data, model.SentEntryName(e.Site, e.Host, id): entry,
		model.SentName(e.Site, e.Host, "20261126T031700Z-cp-1"): data,
		// The entry of this one describes other bytes.
		model.SentName("other.example.com", e.Host, id): bytes.Replace(data, []byte("age"), []byte("AGE"), 1), model.SentEntryName("other.example.com", e.Host, id): entry,
	} {
		if err := to.Put(t.Context(), name, bytes.NewReader(text), int64(len(text))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestABackupOfATargetIsListedFetchedComparedAndOpenedWithoutASite(t *testing.T) {
	targets, key, id := bucketWithBackup(t)
	scratch := t.TempDir()
	t.Chdir(t.TempDir())
	url := "s3://shop-1/all/shop.example.com/cp-1/" + id + ".tar.age"
	other := strings.Replace(url, "shop.example", "other.example", 1)
	for _, c := range []struct {
		line string
		code int
		says []string
	}{
		{"backup list --targets TARGETS --from s3://shop-1/all/shop.example.com", command.ExitOK, []string{"20261126T031700Z-cp-1", "the newest good one: " + url}},
		{"backup list --targets TARGETS --from s3://shop-1 -o json", command.ExitOK, []string{`"newest": "s3://shop-1/all/`, "it was not sent to its end"}},
		{"backup list --targets TARGETS --from s3://shop-1/all/nobody", command.ExitAttention, []string{"there is no backup at s3://shop-1/all/nobody"}},
		{"backup list --from s3://shop-1", command.ExitUsage, []string{"--targets FILE", "AWS_ACCESS_KEY_ID"}},
		{"backup list --from " + scratch, command.ExitAttention, []string{"is it mounted?"}},
		{"backup verify --scratch SCRATCH --targets TARGETS --identity KEY --etcdutl /none " + url, command.ExitAttention, []string{"100%", "was not restored here"}},
		{"backup verify --scratch SCRATCH --targets TARGETS --identity KEY s3://shop-1/all/shop.example.com", command.ExitUsage, []string{"is a folder", "the newest good one is " + url}},
		{"restore --scratch SCRATCH --targets TARGETS --identity KEY --dry-run --dir store --from s3://shop-1/all/shop.example.com", command.ExitUsage, []string{"the newest good one is " + url}},
		{"restore --scratch SCRATCH --targets TARGETS --identity KEY --dry-run --dir store --from " + url, command.ExitFailed, []string{"100%", "is whole, but lacks files that a restore needs"}},
		{"restore --scratch SCRATCH --targets TARGETS --identity KEY --dry-run --dir store --from " + other, command.ExitFailed, []string{"is not what the catalogue at the target says"}},
		{"backup verify --scratch SCRATCH --targets TARGETS --identity KEY s3://shop-1/all/shop.example.com/cp-1/20261126T031700Z-cp-1.tar.age", command.ExitFailed, []string{"the entry beside s3://shop-1/", "it is not there"}},
		{"backup inspect --scratch SCRATCH --targets TARGETS --identity KEY " + other, command.ExitFailed, []string{"is not what the catalogue at the target says"}},
		{"backup fetch --targets TARGETS " + url, command.ExitOK, []string{id + ".tar.age is the one that the catalogue describes", "warning: nobody has compared whose backup", "--authority FILE"}},
		{"backup fetch --targets TARGETS " + url, command.ExitOK, []string{"is there already", "warning: nobody has compared whose backup"}},
		{"backup fetch --targets TARGETS -f KEY " + url, command.ExitFailed, []string{"is another file"}},
		{"backup verify --identity KEY --etcdutl /none " + id + ".tar.age", command.ExitAttention, []string{"was not restored here"}},
	} {
		line := strings.Fields(strings.NewReplacer("TARGETS", targets, "SCRATCH", scratch, "KEY", key).Replace(c.line))
		code, out, errs := runLine(t, line...)
		for _, want := range c.says {
			if code != c.code || !strings.Contains(out+errs, want) {
				t.Errorf("%s: exit code %d, want %d and %q: %s%s", c.line, code, c.code, want, out, errs)
			}
		}
		if strings.Contains(out+errs, "S3cr3t") {
			t.Errorf("%s: it prints a secret", c.line)
		}
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestAFetchThatBreaksSaysWhatToType(t *testing.T) {
	targets, _, id := bucketWithBackup(t)
	f := fromFlags{targets: targets, wait: func(context.Context, int) error { return nil }}
	p, _, err := f.place(Streams{Err: &bytes.Buffer{}}, "s3://shop-1/all/shop.example.com/cp-1/"+id+".tar.age")
	if err != nil {
		t.Fatal(err)
	}
	err = f.fetch(t.Context(), Streams{Err: &bytes.Buffer{}}, p, filepath.Join(t.TempDir(), "no folder", "x"))
	if want := "holdfast backup fetch " + p.URL + " --targets " + targets; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// A trial of a restore sends to the folder of the living site, and its backups are the newest there.
func TestAListOfATargetNamesTheNewestGoodOneOfEachLifeOfASite(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, model.DefaultMarker), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, b := range []struct {
		id, site string
		etcd     state.MemberID
	}{
		{"20261125T030000Z-cp-1", "shop.example.com", 0xa},
		{"20261126T030000Z-cp-1", "shop.example.com", 0xa},
		{"20261126T120000Z-cp-1", "shop.example.com", 0xb},
		{"20261125T040000Z-cp-1", "other.example.com", 0xc},
	} {
		e := model.Entry{
			Format: model.Format, ID: b.id, Site: b.site, Host: "cp-1", Taken: time.Now(), Checks: []model.Check{{Name: "sum", OK: true}},
			Database: model.Database{Cluster: b.etcd}, Copies: []model.Copy{{Target: "nas", File: model.File{Size: 1}, Verified: time.Now()}},
		}.Judge()
		text, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, b.site, e.Host), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{model.SentName(b.site, e.Host, b.id): []byte("x"), model.SentEntryName(b.site, e.Host, b.id): text} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	code, out, errs := runLine(t, "backup", "list", "--from", dir)
	const living = "of another etcd, from before a restore, or beside a trial of one: "
	for _, want := range []string{"the newest good one of shop.example.com: " + dir + "/shop.example.com/cp-1/20261126T120000Z-cp-1.tar.age", "the newest good one of other.example.com: " + dir + "/other.example.com/cp-1/20261125T040000Z-cp-1.tar.age", living + dir + "/shop.example.com/cp-1/20261126T030000Z-cp-1.tar.age"} {
		if code != command.ExitOK || strings.Count(out, want) != 1 {
			t.Errorf("exit code %d, want %q once: %s%s", code, want, out, errs)
		}
	}
	if code, out, errs := runLine(t, "backup", "list", "--from", filepath.Join(dir, "other.example.com")); code != command.ExitOK || !strings.Contains(out, "the newest good one: ") {
		t.Errorf("of a folder below the one with the marker: exit code %d: %s%s", code, out, errs)
	}
	if strings.Count(out, living) != 1 {
		t.Errorf("backups of another site, or older ones, are named: %s", out)
	}
}

// atTarget puts a good backup into a folder, which was begun and taken at these times.
func atTarget(t *testing.T, dir string, begun, taken time.Time) string {
	t.Helper()
	return atTargetOf(t, dir, "shop.example.com", begun, taken)
}

func atTargetOf(t *testing.T, dir, site string, begun, taken time.Time) string {
	t.Helper()
	e := model.Entry{
		Format: model.Format, ID: model.NewID("cp-1", begun), Site: site, Host: "cp-1", Taken: taken, Checks: []model.Check{{Name: "sum", OK: true}},
		Copies: []model.Copy{{Target: "nas", File: model.File{Size: 1}, Verified: taken}},
	}.Judge()
	text, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, e.Site, e.Host), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{model.SentName(e.Site, e.Host, e.ID): []byte("x"), model.SentEntryName(e.Site, e.Host, e.ID): text} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, model.SentName(e.Site, e.Host, e.ID))
}

func mounted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, model.DefaultMarker), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A clock that was months ahead names its backups so that they come first in every list.
func TestABackupOfAClockThatWasAheadIsNeverNamedAsTheNewest(t *testing.T) {
	dir, now := mounted(t), time.Now().UTC().Truncate(time.Second)
	ahead := atTarget(t, dir, now.AddDate(0, 3, 0), now.AddDate(0, 3, 0))
	code, out, errs := runLine(t, "backup", "list", "--from", dir, "-o", "wide")
	if code != command.ExitAttention || strings.Contains(out, "the newest good one") || !strings.Contains(out, " future ") || !strings.Contains(out, "nobody knows how old it is") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, _, errs = runLine(t, "restore", "--dry-run", "--dir", "store", "--from", dir)
	if code != command.ExitUsage || !strings.Contains(errs, "none of those that were looked at is good and of a known age") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	newest := atTarget(t, dir, now.Add(-time.Hour), now.Add(-time.Hour))
	code, out, errs = runLine(t, "backup", "list", "--from", dir)
	if code != command.ExitOK || !strings.Contains(out, "the newest good one: "+newest+"\n") || strings.Contains(out, "of another etcd") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, out, errs = runLine(t, "backup", "list", "--from", dir, "-o", "json")
	if code != command.ExitOK || !strings.Contains(out, `"newest": "`+newest) || !strings.Contains(out, `"ahead": true`) || strings.Count(out, `"good": true`) != 2 {
		t.Errorf("exit code %d, %s is there: %s%s", code, ahead, out, errs)
	}
}

// One bucket has the backups of many sites, and each command that is given it may restore the wrong one.
func TestTheNewestGoodBackupOfEachSiteIsNamed(t *testing.T) {
	dir, now := mounted(t), time.Now().UTC().Truncate(time.Second)
	old := atTargetOf(t, dir, "small.example.com", now.AddDate(0, 0, -40), now.AddDate(0, 0, -40))
	var busy string
	for i := range 2 * mostLooked {
		busy = atTarget(t, dir, now.Add(time.Duration(i-99)*time.Hour), now.Add(time.Duration(i-99)*time.Hour))
	}
	code, out, errs := runLine(t, "backup", "list", "--from", dir)
	for _, want := range []string{"the newest good one of shop.example.com: " + busy + "\n", "the newest good one of small.example.com: " + old + "\n"} {
		if code != command.ExitOK || strings.Count(out, want) != 1 || strings.Contains(out, "the newest good one: ") {
			t.Errorf("exit code %d, want %q: %s%s", code, want, out, errs)
		}
	}
	code, out, errs = runLine(t, "backup", "list", "--from", dir, "-o", "json")
	if code != command.ExitOK || strings.Contains(out, `"newest"`) || !strings.Contains(out, `"small.example.com": "`+old) || strings.Count(out, "not looked at") != mostLooked {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, _, errs = runLine(t, "restore", "--dry-run", "--dir", "store", "--from", dir)
	if code != command.ExitUsage || !strings.Contains(errs, "with backups of 2 sites: name the folder of the site, or one of its backups; the newest good one of shop.example.com is "+busy) {
		t.Errorf("exit code %d: %s", code, errs)
	}
	code, out, errs = runLine(t, "backup", "list", "--from", filepath.Join(dir, "small.example.com"), "-o", "json")
	if code != command.ExitOK || !strings.Contains(out, `"newest": "`+old) {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

func TestTheEntriesThatAreReadAreBounded(t *testing.T) {
	for _, c := range []struct{ sites, each, good, want int }{
		{1, 50, 0, mostLooked},    // the first is good
		{1, 50, 30, 31},           // up to the first good one
		{1, 1000, 1000, mostRead}, // none is
		{10, 50, 0, 10 * mostLooked},
		{100, 50, 0, mostRead},
		{500, 2, 0, mostRead},
	} {
		var sent []model.Sent
		for n := range c.each {
			for site := range c.sites {
				sent = append(sent, model.Sent{Archive: fmt.Sprintf("site-%d/cp-1/%d.tar.age", site, n)})
			}
		}
		l, read, of := newLooks(sent), 0, map[string]int{}
		for i, s := range sent {
			if l.next(siteFolder(s)) {
				read++
				of[siteFolder(s)]++
				l.good[siteFolder(s)] = l.good[siteFolder(s)] || i/c.sites >= c.good
			}
		}
		if read != c.want || len(of) != min(c.sites, mostRead) {
			t.Errorf("%d sites with %d each, good from %d: %d of %d sites are read, want %d", c.sites, c.each, c.good, read, len(of), c.want)
		}
	}
}

func TestTheNewestGoodBackupFromBeforeAMomentIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, model.DefaultMarker), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first := time.Date(2026, 11, 1, 3, 0, 0, 0, time.UTC)
	var all []string
	for day := range 30 { // more than are looked at, if the first is good
		begun := first.AddDate(0, 0, day)
		all = append(all, atTarget(t, dir, begun, begun.Add(10*time.Second)))
	}
	for _, c := range []struct {
		before string
		code   int
		says   string
		listed int
	}{
		{"2026-11-03T12:00:00Z", command.ExitOK, "the newest good one: " + all[2] + "\n", 3},
		{"2026-11-03T04:00:11+01:00", command.ExitOK, "the newest good one: " + all[2] + "\n", 3},
		{"2026-11-03T03:00:05Z", command.ExitOK, "the newest good one: " + all[1] + "\n", 2}, // the third was begun, and its data are of later
		{"2026-11-01T00:00:00Z", command.ExitAttention, "there is no backup at " + dir + " that was taken before 2026-11-01T00:00:00Z", 0},
		{"yesterday", command.ExitUsage, "--before \"yesterday\": must be a time with its zone", 0},
		{"2026-11-03", command.ExitUsage, "as in 2026-11-25T14:00:00Z", 0},
	} {
		code, out, errs := runLine(t, "backup", "list", "--from", dir, "--before", c.before)
		if code != c.code || !strings.Contains(out+errs, c.says) || strings.Count(out, "Z-cp-1 ") != c.listed {
			t.Errorf("%s: exit code %d, want %d, %d backups and %q: %s%s", c.before, code, c.code, c.listed, c.says, out, errs)
		}
	}
	if code, _, errs := runLine(t, "backup", "list", "--before", "2026-11-03T12:00:00Z"); code != command.ExitUsage || !strings.Contains(errs, "--before: needs --from") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

func TestARestoreSaysWhereTheBackupsOfItsSiteGo(t *testing.T) {
	text := (&restoring{dir: "store-17"}).next(nil)
	for _, want := range []string{"sends its backups to the targets of the former one", "holdfast backup configure -f FILE-WITHOUT-TARGETS --no-wait", "store-17/restore/etcd.db"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
}

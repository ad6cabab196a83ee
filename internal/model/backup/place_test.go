package backup

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func placesKnown() []Target {
	return []Target{
		{Name: "nas", Directory: &Directory{Path: "/mnt/backups"}},
		{Name: "shops", S3: &S3{Endpoint: "https://s3.example.com", Bucket: "shop-1", Prefix: "shops/"}},
		{Name: "whole", S3: &S3{Endpoint: "https://s3.example.com", Bucket: "shop-1"}},
		{Name: "north", S3: &S3{Endpoint: "https://north.example.com", Bucket: "two"}},
		{Name: "south", S3: &S3{Endpoint: "https://south.example.com", Bucket: "two"}},
		{Name: "deep", S3: &S3{Endpoint: "https://s3.example.com", Bucket: "deep-1", Prefix: "a/b"}},
		{Name: "attic", SFTP: &SFTP{Server: "backup.example.com", User: "shop", Path: "/backups"}},
		{Name: "port", SFTP: &SFTP{Server: "[2001:db8::1]:2222", User: "shop", Path: "/b"}},
		{Name: "six", SFTP: &SFTP{Server: "2001:db8::2", User: "shop", Path: "/c"}},
	}
}

func TestAPlaceIsFoundAmongTheTargetsOrInTheEnvironmentAndMistakesAreToldWithoutSecrets(t *testing.T) {
	environment := map[string]string{"AWS_ENDPOINT_URL": "https://s3.example.com", "AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "S3cr3t"}
	var out strings.Builder
	for _, c := range []struct {
		url  string
		vars map[string]string
	}{
		{"s3://shop-1/shops/site/cp-1/x.tar.age", nil},
		{"s3://shop-1/shopsx/site", nil},
		{"s3://shop-1", nil},
		{"s3://two/site", nil},
		{"s3://deep-1/a", nil},
		{"s3://deep-1/c", nil},
		{"s3://other/site/cp-1/x.tar.age", environment},
		{"s3://other/site", nil},
		{"s3://other/site", map[string]string{"AWS_ENDPOINT_URL": "https://u:S3cr3t@s3.example.com", "AWS_ACCESS_KEY_ID": "A", "AWS_SESSION_TOKEN": "S3cr3t"}},
		{"sftp://shop@backup.example.com/backups/site/cp-1/x.tar.age", nil},
		{"sftp://backup.example.com:22/backups", nil},
		{"sftp://shop@[2001:db8::1]:2222/b/site/", nil},
		{"sftp://shop@[2001:db8::2]/c/site/", nil},
		{"sftp://shop@backup.example.com/elsewhere", nil},
		{"sftp://else@backup.example.com/backups", nil},
		{"sftp://shop:S3cr3t@backup.example.com/backups/../x?a=S3cr3t", nil},
		{"s3://A:S3cr3t@shop-1/shops", nil},
		{"s3:///site", nil},
		{"s3://%zz", nil},
	} {
		p, err := PlaceOf(c.url, placesKnown(), func(name string) string { return c.vars[name] })
		out.WriteString(strings.ReplaceAll(c.url, "S3cr3t", "SECRET") + "\n")
		if err != nil {
			out.WriteString("  refused: " + strings.ReplaceAll(err.Error(), "\n", "\n           ") + "\n")
			continue
		}
		out.WriteString("  " + p.Target.String() + ": " + p.Name + "\n  " + p.URL + "\n")
	}
	if strings.Contains(out.String(), "S3cr3t") {
		t.Error("it tells a secret")
	}
	golden.Check(t, "places.txt", []byte(out.String()))
}

func TestArchivesAreFoundAmongTheFilesOfATargetTheNewestFirst(t *testing.T) {
	const a, b = "20261125T031700Z-cp-1", "20261126T031700Z-cp-2"
	got := SentOf(map[string]int64{
		"site/cp-1/" + a + ".tar.age": 10, "site/cp-1/" + a + ".json": 1, "site/cp-2/" + b + ".tar.age": 20,
		b + "/" + b + ".tar": 30, b + "/entry.json": 1, "probe": 1, "site/cp-1/" + a + ".tar.age.part": 5, "site/x.tar.age": 1,
	})
	want := []Sent{
		{b, b + "/" + b + ".tar", b + "/entry.json", 30}, {b, "site/cp-2/" + b + ".tar.age", "", 20}, {a, "site/cp-1/" + a + ".tar.age", "site/cp-1/" + a + ".json", 10},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

package ignition

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_5/types"
)

func packed(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	if _, err := zw.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return DataURL(out.Bytes())
}

func TestContentsAreUnpackedThenVerified(t *testing.T) {
	s256, s512 := sha256.Sum256([]byte("hello")), sha512.Sum512([]byte("hello"))
	h256, h512 := "sha256-"+hex.EncodeToString(s256[:]), "sha512-"+strings.ToUpper(hex.EncodeToString(s512[:]))
	tests := []struct {
		name                      string
		source, compression, hash string
		want, fault               string
	}{
		{"no source", "", "", "", "", ""},
		{"plain text", "data:,hello", "", "", "hello", ""},
		{"base64", DataURL([]byte("hello")), "", h256, "hello", ""},
		{"gzip, hash of the unpacked", packed(t, "hello"), "gzip", h512, "hello", ""},
		{"wrong hash", "data:,hallo", "", h256, "", "verification.hash"},
		{"not gzip", "data:,hello", "gzip", "", "", "compression"},
		{"remote", "https://x/", "", "", "", "only data: URLs"},
		{"broken", "data:;base64,%", "", "", "", "not a data: URL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := types.Resource{Source: &tt.source, Compression: &tt.compression}
			if tt.hash != "" {
				r.Verification.Hash = &tt.hash
			}
			got, err := Contents(r)
			if string(got) != tt.want || (err == nil) != (tt.fault == "") {
				t.Fatalf("got %q, %v", got, err)
			}
			if err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("error %q lacks %q", err, tt.fault)
			}
		})
	}
}

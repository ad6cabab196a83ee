package configserver

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/ignition"
)

func TestNegotiateGivesTheNewestThatTheClientReads(t *testing.T) {
	const m = ignition.MediaType
	supported := []string{"3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0"}
	tests := []struct {
		name   string
		accept []string
		want   string // "!" for none
	}{
		{"none", nil, "3.5.0"},
		{"empty", []string{""}, "3.5.0"},
		{"foreign", []string{"text/html, */*;q=0.1"}, "3.5.0"},
		{"what Ignition sends", []string{m + ";version=3.4.0, */*;q=0.1"}, "3.4.0"},
		{"an older one", []string{m + ";version=3.0.0"}, "3.0.0"},
		{"a newer minor", []string{m + ";version=3.9.0"}, "3.5.0"},
		{"an experimental one", []string{m + ";version=3.6.0-experimental"}, "3.5.0"},
		{"a patch in between", []string{m + ";version=3.2.7"}, "3.2.0"},
		{"short", []string{m + ";version=3.3"}, "3.3.0"},
		{"no version", []string{m}, "3.5.0"},
		{"quoted", []string{m + `;version="3.1.0"`}, "3.1.0"},
		{"capitals and blanks", []string{" Application/Vnd.CoreOS.Ignition+JSON ; Version=3.1.0 "}, "3.1.0"},
		{"highest q first", []string{m + ";version=3.1.0;q=0.2," + m + ";version=3.4.0;q=0.9"}, "3.4.0"},
		{"equal q, first first", []string{m + ";version=3.1.0," + m + ";version=3.4.0"}, "3.1.0"},
		{"two headers", []string{m + ";version=2.4.0", m + ";version=3.1.0;q=0.5"}, "3.1.0"},
		{"an unsupported first, a supported second", []string{m + ";version=4.0.0," + m + ";version=3.2.0;q=0.5"}, "3.2.0"},
		{"refused by q=0", []string{m + ";version=3.2.0;q=0, text/html"}, "3.5.0"},
		{"a q that is none comes last", []string{m + ";version=3.1.0;q=x," + m + ";version=3.2.0;q=0.1"}, "3.2.0"},
		{"a q above one comes last", []string{m + ";version=3.1.0;q=7," + m + ";version=3.2.0;q=0.1"}, "3.2.0"},
		{"q that is not a number", []string{m + ";version=3.1.0;q=NaN," + m + ";version=3.2.0;q=0.1"}, "3.2.0"},
		{"a comma within quotes", []string{`text/plain;x="a,` + m + `;version=2.0.0", ` + m + ";version=3.1.0"}, "3.1.0"},
		{"broken items are skipped", []string{";;;," + m + ";version=3.1.0,=,"}, "3.1.0"},
		{"spec 2", []string{m + ";version=2.4.0, */*;q=0.1"}, "!spec 2 is not served"},
		{"spec 4", []string{m + ";version=4.0.0"}, "!3.0.0, 3.1.0"},
		{"no number", []string{m + ";version=newest"}, "!supported are"},
		{"a negative number", []string{m + ";version=3.-1.0"}, "!supported are"},
		{"a huge number", []string{m + ";version=3.99999999999999999999.0"}, "!supported are"},
		{"too many numbers", []string{m + ";version=3.1.0.0"}, "!supported are"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Negotiate(tt.accept, supported)
			if want, bad := strings.CutPrefix(tt.want, "!"); bad {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %s, %v, want an error with %q", got, err, want)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func FuzzNegotiateChoosesOnlyWhatIsSupported(f *testing.F) {
	f.Add(ignition.MediaType + ";version=3.4.0, */*;q=0.1")
	f.Add(ignition.MediaType + `;version="3.,4";q=0.5,`)
	f.Add(`"\`)
	f.Fuzz(func(t *testing.T, accept string) {
		got, err := Negotiate([]string{accept}, ignition.Versions())
		if err == nil && !slices.Contains(ignition.Versions(), got) {
			t.Errorf("%q: %q", accept, got)
		}
		if err != nil && len(accept) > 60 && strings.Contains(err.Error(), accept) {
			t.Errorf("the error repeats the request: %v", err)
		}
	})
}

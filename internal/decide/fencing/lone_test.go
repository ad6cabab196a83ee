package fencing

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatAHostThatStartsAloneTakesForAProof(t *testing.T) {
	asked := Progress{Requests: 1, OffFor: OffLasts - 1}
	for sentence, c := range map[string]struct {
		p    Progress
		r    Reading
		want Step
	}{
		"exactly Off of a silent host is off":                          {Progress{}, silent, Proven},
		"a host that is heard is left alone":                           {Progress{}, heard, Refuse},
		"however long its BMC says Off":                                {Progress{Requests: 1, OffFor: time.Hour}, heard, Refuse},
		"an Off that nobody could confirm proves nothing":              {Progress{}, says("Off"), Again},
		"nor does one that lasts without a request":                    {Progress{OffFor: OffLasts - 1}, says("Off"), Again},
		"after that the power is to be cut":                            {Progress{OffFor: OffLasts}, says("Off"), Ask},
		"an Off has to last after the request too":                     {asked, says("Off"), Again},
		"then it is off":                                               {Progress{Requests: 1, OffFor: OffLasts}, says("Off"), Proven},
		"a switch that comes back meanwhile shortens it":               {asked, silent, Proven},
		"and may let the host be heard":                                {asked, heard, Refuse},
		"a host that has power is left alone":                          {Progress{}, says("On"), Refuse},
		"so is one that gets it":                                       {Progress{OffFor: OffLasts}, says("PoweringOn"), Refuse},
		"off in small letters is not off":                              {Progress{}, Reading{Power: state.Known("off"), Heard: state.Known(false)}, Refuse},
		"no power state is not off":                                    {asked, says(""), Refuse},
		"a BMC that cannot be read proves nothing":                     {asked, fails("timeout"), Refuse},
		"nothing is asked of a member":                                 {Progress{OffFor: OffLasts, Back: true}, says("Off"), Refuse},
		"nor does an Off that lasts prove anything of one before that": {Progress{OffFor: time.Hour, Back: true}, says("Off"), Refuse},
	} {
		if got := NextLone(c.p, c.r); got.Step != c.want || got.Why == "" || (got.Wait > 0) != (c.want == Again || c.want == Ask) {
			t.Errorf("%s: %+v", sentence, got)
		}
	}
}

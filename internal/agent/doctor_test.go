package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAHostIsPublishedWithoutAddressesOfBMCsAndWithinBounds(t *testing.T) {
	long := strings.Repeat("ö", 200)
	h := decide.Host{
		Name: "cp-1", Rebooters: state.Known([]string{}),
		BMCs:    state.Known([]decide.BMC{{Target: "cp-2", Address: "10.99.0.2", Gateway: "10.98.0.1", Interface: "eth0", Delay: time.Second}, {Target: "cp-3"}}),
		Trouble: []string{long, "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"},
	}
	var told string
	p := &doctorPublisher{
		look: func(context.Context) decide.Host { return h },
		tell: func(_ context.Context, node, value string) error {
			if node != "cp-1" {
				t.Errorf("told about %s", node)
			}
			told = value
			return nil
		},
	}
	if err := p.publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	var back decide.Host
	if err := json.Unmarshal([]byte(told), &back); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(told, "10.99.0.2") || strings.Contains(told, "10.98.0.1") || !back.BMCs.Known || back.BMCs.Value[0].Interface != "eth0" {
		t.Errorf("%s", told)
	}
	if back.BMCs.Value[0].Address == "" || back.BMCs.Value[1].Address != "" {
		t.Errorf("that a name does not resolve is still to be seen: %s", told)
	}
	if !back.Rebooters.Known || len(back.Trouble) != maxTroubles || len(back.Trouble[0]) > maxTrouble {
		t.Errorf("%+v", back)
	}
	if h.BMCs.Value[0].Address != "10.99.0.2" {
		t.Error("what was looked up was changed")
	}
}

func TestAHostWithNoDevicesIsPublishedAsOneWithNone(t *testing.T) {
	for _, in := range []state.Fact[[]decide.BMC]{state.Known([]decide.BMC{}), {}} {
		text, err := json.Marshal(presentable(decide.Host{BMCs: in}))
		if err != nil {
			t.Fatal(err)
		}
		var back decide.Host
		if err := json.Unmarshal(text, &back); err != nil || back.BMCs.Known != in.Known {
			t.Errorf("%+v became %s, %v", in, text, err)
		}
	}
}

func TestItIsPublishedEveryHalfHourAndAtEachStageAndTriedAgainAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		answers := []error{errors.New("no API"), errors.New("no API"), nil, errors.New("no API"), nil, nil}
		var at []time.Duration
		var log bytes.Buffer
		began := time.Now()
		p := &doctorPublisher{
			now: time.Now, // Corosync is configured 40 minutes after the start
			stage: func() doctorStage {
				return doctorStage{Installed: true, Corosync: time.Since(began) > 40*time.Minute}
			},
			look: func(context.Context) decide.Host { return decide.Host{Name: "cp-1"} },
			tell: func(context.Context, string, string) error {
				if at = append(at, time.Since(began)); len(at) == len(answers) {
					stop()
				}
				return answers[len(at)-1]
			},
		}
		loop.New(time.Now, slog.New(slog.NewTextHandler(&log, nil))).Run(ctx, p.task())
		if want := []time.Duration{0, time.Minute, 2 * time.Minute, 32 * time.Minute, 33 * time.Minute, 41 * time.Minute}; !slices.Equal(at, want) {
			t.Errorf("published at %v, want %v", at, want)
		}
		if got := strings.Count(log.String(), "msg=fails"); got != 2 {
			t.Errorf("said %d times, want once for each time that it began: %q", got, log.String())
		}
	})
}

func runAgentLine(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	code := Run(t.Context(), command.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, args)
	return code, out.String()
}

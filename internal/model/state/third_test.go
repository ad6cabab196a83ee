package state

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestTheFormOfARecordOfTwoThatLetAThirdMemberInIsTheOneThatOtherReleasesRead(t *testing.T) {
	r := EtcdRecord{State: EtcdWidening, Seq: 5, Cluster: 0xc1, Member: 0xa1, Third: 0xc3, Written: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	b, err := EncodeEtcdRecord(r)
	if err != nil {
		t.Fatal(err)
	}
	form(t, "etcd-record-widening-1.json", b)
	if got, err := DecodeEtcdRecord(b); err != nil || cmp.Diff(r, got) != "" {
		t.Errorf("%v, %+v", err, got)
	}
	for _, s := range []EtcdState{EtcdWidening, EtcdMajority} {
		r.State, r.Third = s, 0
		if _, err := EncodeEtcdRecord(r); err == nil || !strings.Contains(err.Error(), "third member") {
			t.Errorf("%s without a third member: %v", s, err)
		}
		r.Third, r.Member = 0xc3, 0
		if _, err := EncodeEtcdRecord(r); err == nil || !strings.Contains(err.Error(), "no member") {
			t.Errorf("%s without a member: %v", s, err)
		}
		r.Member = 0xa1
	}
}

// A release before it does not know the states: it stops, and touches nothing.
func TestAStatementOfAHostThatLetsAThirdMemberInIsRead(t *testing.T) {
	st := statement()
	st.Record = EtcdRecord{State: EtcdMajority, Seq: 5, Cluster: 0xc1, Member: 0xa1, Third: 0xc3}
	text, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeEtcdStatement(text)
	if err != nil || cmp.Diff(st, got, cmpopts.EquateComparable(netip.Addr{})) != "" {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestTheFormOfAPlansWordAboutAThirdHostIsTheOneThatOtherReleasesRead(t *testing.T) {
	w := EtcdThirdWord{Plan: "p1", Host: "cp-3", Address: netip.MustParseAddr("192.0.2.13"), Member: 0xc3}
	text, err := json.Marshal(w)
	if want := `{"plan":"p1","host":"cp-3","address":"192.0.2.13","member":"c3"}`; err != nil || string(text) != want {
		t.Errorf("%v, %s", err, text)
	}
	w = EtcdThirdWord{Plan: "p1", Host: "cp-3", Member: 0xc3, Leaves: true}
	text, err = json.Marshal(w)
	if want := `{"plan":"p1","host":"cp-3","member":"c3","leaves":true}`; err != nil || string(text) != want {
		t.Errorf("%v, %s", err, text)
	}
	var got EtcdThirdWord
	if err := json.Unmarshal([]byte(`{"plan":"p1","host":"cp-3","moon":"full"}`), &got); err != nil || got != (EtcdThirdWord{Plan: "p1", Host: "cp-3"}) {
		t.Errorf("%v, %+v", err, got)
	}
}

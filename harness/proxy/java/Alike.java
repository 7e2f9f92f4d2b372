package fencepost.proxy;

import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** What may be meant by a name that nobody knows; `names.py` finds the same. */
final class Alike {
    private static final int MOST = 3;
    private static final int LONGEST = 100; // letters of a name
    private static final double LEAST = 0.65;

    private Alike() {}

    /** `; did you mean EndTxn?`: names that are alike in letters of any case, or that this one is a part of; empty without any. */
    static String to(String name, Collection<String> known) {
        if (name.isEmpty() || name.length() > LONGEST) {
            return "";
        }
        String wanted = name.toLowerCase();
        Comparator<String> closest = Comparator.comparingDouble(one -> ratio(one.toLowerCase(), wanted));
        List<String> close = known.stream().filter(one -> ratio(one.toLowerCase(), wanted) >= LEAST)
            .sorted(closest.thenComparing(Comparator.comparing(String::toLowerCase)).reversed()).limit(MOST).toList();
        Set<String> found = new LinkedHashSet<>(close);
        known.stream().filter(one -> one.toLowerCase().contains(wanted)).forEach(found::add);
        return found.isEmpty() ? "" : "; did you mean " + String.join(", ", found.stream().limit(MOST).toList()) + "?";
    }

    /** How much two texts have in common, 0 to 1, as Python's difflib counts it. */
    private static double ratio(String one, String other) {
        return one.isEmpty() && other.isEmpty() ? 1 : 2.0 * common(one, other) / (one.length() + other.length());
    }

    /** The letters of the longest part that both have, and of what they have in common before and behind it. */
    private static int common(String one, String other) {
        int length = 0;
        int here = 0;
        int there = 0;
        int[] before = new int[other.length() + 1];
        for (int i = 0; i < one.length(); i++) {
            int[] row = new int[other.length() + 1];
            for (int j = 0; j < other.length(); j++) {
                row[j + 1] = one.charAt(i) == other.charAt(j) ? before[j] + 1 : 0;
                if (row[j + 1] > length) {
                    length = row[j + 1];
                    here = i + 1 - length;
                    there = j + 1 - length;
                }
            }
            before = row;
        }
        return length == 0 ? 0 : length + common(one.substring(0, here), other.substring(0, there))
            + common(one.substring(here + length), other.substring(there + length));
    }
}

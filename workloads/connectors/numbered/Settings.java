package fencepost;

import java.util.Map;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.LambdaValidator;
import org.apache.kafka.common.config.ConfigDef.NonEmptyString;
import org.apache.kafka.common.config.ConfigDef.Range;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigDef.ValidString;
import org.apache.kafka.common.config.ConfigDef.Validator;
import org.apache.kafka.common.config.ConfigException;

/** The configuration of the connector, and of its tasks, which have two keys more. */
final class Settings extends AbstractConfig {
    static final String TOPIC = "topic";
    static final String PARTITIONS = "topic.partitions";
    static final String SOURCES = "sources";
    static final String RECORDS_PER_POLL = "records.per.poll";
    static final String POLL_INTERVAL = "poll.interval.ms";
    static final String TRANSACTION_RECORDS = "transaction.records";
    static final String ABORT_EVERY = "abort.every";
    static final String ABORT_EMPTY_EVERY = "abort.empty.every";
    static final String ANSWER_EXACTLY_ONCE = "answer.exactly.once";
    static final String ANSWER_BOUNDARIES = "answer.boundaries";
    static final String RECORDS_PER_NUMBER = "records.per.number";
    static final String DROP_EVERY = "drop.every";
    static final String SKIP_EVERY = "skip.every";
    static final String FORGET_EVERY = "forget.every";
    static final String REPEAT_AFTER_START = "repeat.after.start";
    static final String OFFSET_AHEAD = "offset.ahead";
    static final String OFFSET_INVALID_AFTER = "offset.invalid.after";
    static final String TASK = "task";
    static final String TASKS = "tasks";
    static final String SUPPORTED = "supported";
    static final String UNSUPPORTED = "unsupported";
    static final String NULL = "null";

    static final ConfigDef CONNECTOR = new ConfigDef()
            .define(TOPIC, Type.STRING, "numbered", new NonEmptyString(), Importance.HIGH,
                    "The topic that records are written to")
            .define(PARTITIONS, Type.INT, 1, Range.atLeast(1), Importance.HIGH, "How many partitions that topic has")
            .define(SOURCES, Type.INT, 1, Range.atLeast(1), Importance.HIGH, "How many source partitions there are")
            .define(RECORDS_PER_POLL, Type.INT, 20, Range.atLeast(1), Importance.MEDIUM, "The most records that a poll returns")
            .define(POLL_INTERVAL, Type.LONG, 100L, Range.atLeast(0), Importance.MEDIUM,
                    "The pause before a poll returns records")
            .define(TRANSACTION_RECORDS, Type.INT, 10, Range.atLeast(1), Importance.MEDIUM,
                    "How many records a transaction has, where transaction.boundary is connector")
            .define(ABORT_EVERY, Type.INT, 0, oneIn(), Importance.MEDIUM,
                    "One transaction in so many is aborted, where transaction.boundary is connector; 0: none")
            .define(ABORT_EMPTY_EVERY, Type.INT, 0, Range.atLeast(0), Importance.LOW,
                    "After so many transactions one without a record is aborted, where transaction.boundary is connector; 0: never")
            .define(ANSWER_EXACTLY_ONCE, Type.STRING, SUPPORTED, ValidString.in(SUPPORTED, UNSUPPORTED, NULL), Importance.LOW,
                    "What exactlyOnceSupport answers")
            .define(ANSWER_BOUNDARIES, Type.STRING, SUPPORTED, ValidString.in(SUPPORTED, UNSUPPORTED, NULL), Importance.LOW,
                    "What canDefineTransactionBoundaries answers")
            .define(RECORDS_PER_NUMBER, Type.INT, 1, Range.atLeast(1), Importance.MEDIUM,
                    "The most records that a number gives; number n gives 1 + n modulo so many, all with the offset n")
            .define(DROP_EVERY, Type.INT, 0, Range.atLeast(0), Importance.LOW,
                    "After so many batches one whose records all have the header " + NumberedTask.DROPPED
                            + ", for a transform that drops them; 0: never")
            .define(SKIP_EVERY, Type.INT, 0, oneIn(), Importance.LOW, "A lie: one number in so many is never emitted; 0: none")
            .define(FORGET_EVERY, Type.INT, 0, oneIn(), Importance.LOW,
                    "A lie: one number in so many is emitted without its last record, where it gives several; 0: none")
            .define(REPEAT_AFTER_START, Type.INT, 0, Range.atLeast(0), Importance.LOW,
                    "A lie: how many records of a source partition are emitted again after a start with a stored offset")
            .define(OFFSET_AHEAD, Type.INT, 0, Range.atLeast(0), Importance.LOW,
                    "A lie: how far the offset of a record is ahead of the record's number")
            .define(OFFSET_INVALID_AFTER, Type.INT, 0, Range.atLeast(0), Importance.LOW,
                    "After so many records of a session no worker can store the offsets of further ones; 0: never");

    static final ConfigDef A_TASK = new ConfigDef(CONNECTOR)
            .define(TASK, Type.INT, ConfigDef.NO_DEFAULT_VALUE, Range.atLeast(0), Importance.HIGH, "The number of this task")
            .define(TASKS, Type.INT, ConfigDef.NO_DEFAULT_VALUE, Range.atLeast(1), Importance.HIGH,
                    "How many tasks share the source partitions");

    final String topic = getString(TOPIC);
    final int partitions = getInt(PARTITIONS);
    final int sources = getInt(SOURCES);
    final int recordsPerPoll = getInt(RECORDS_PER_POLL);
    final long pollIntervalMs = getLong(POLL_INTERVAL);
    final int transactionRecords = getInt(TRANSACTION_RECORDS);
    final int abortEvery = getInt(ABORT_EVERY);
    final int abortEmptyEvery = getInt(ABORT_EMPTY_EVERY);
    final int recordsPerNumber = getInt(RECORDS_PER_NUMBER);
    final int dropEvery = getInt(DROP_EVERY);
    final int skipEvery = getInt(SKIP_EVERY);
    final int forgetEvery = getInt(FORGET_EVERY);
    final int repeatAfterStart = getInt(REPEAT_AFTER_START);
    final int offsetAhead = getInt(OFFSET_AHEAD);
    final int offsetInvalidAfter = getInt(OFFSET_INVALID_AFTER);

    Settings(ConfigDef definition, Map<String, String> properties) {
        super(definition, properties, false);
    }

    /** A validator of "one in so many": all of them would leave nothing. */
    private static Validator oneIn() {
        return LambdaValidator.with(Settings::refuseAll, () -> "0 or [2,...]");
    }

    private static void refuseAll(String name, Object value) {
        if ((Integer) value < 0 || (Integer) value == 1) {
            throw new ConfigException(name, value, "must be 0 (none) or at least 2");
        }
    }
}

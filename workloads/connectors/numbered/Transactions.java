package fencepost;

import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.TransactionContext;

/** Transactions that the task ends itself (transaction.boundary=connector), and which of them it aborts. */
final class Transactions {
    private final TransactionContext context;
    private final int size;
    private final int abortEvery;
    private final int abortEmptyEvery;
    private long transaction = 1;
    private int records;
    private long committed;
    private long discarded;
    private long emptied = 1; // the transaction that was aborted last before it had a record

    Transactions(TransactionContext context, Settings settings) {
        this.context = context;
        size = settings.transactionRecords;
        abortEvery = settings.abortEvery;
        abortEmptyEvery = settings.abortEmptyEvery;
    }

    /** Aborts the present transaction, if it has no record yet and so many have ended since this was done the last time. */
    boolean abortEmpty() {
        if (abortEmptyEvery == 0 || records > 0 || transaction - emptied < abortEmptyEvery) {
            return false;
        }
        emptied = transaction;
        context.abortTransaction();
        return true;
    }

    /** Whether the present transaction will be aborted. */
    boolean aborted() {
        return abortEvery > 0 && transaction % abortEvery == 0;
    }

    /** Counts a record of the present transaction, and is true when this is the last one. */
    boolean full() {
        return ++records == size;
    }

    /**
     * Whether the next record ends a transaction that is aborted. It is returned by a poll of its own: what a producer has not
     * sent yet when it aborts never comes to a broker.
     */
    boolean aborts() {
        return aborted() && records == size - 1;
    }

    /**
     * Ends the present transaction, by turns with its last record and with the batch.
     *
     * @return whether the batch has to end with it
     */
    boolean end(SourceRecord last) {
        boolean byBatch = (aborted() ? discarded++ : committed++) % 2 == 1;
        if (byBatch) {
            endWithBatch();
        } else {
            endWith(last);
        }
        transaction++;
        records = 0;
        return byBatch;
    }

    private void endWithBatch() {
        if (aborted()) {
            context.abortTransaction();
        } else {
            context.commitTransaction();
        }
    }

    private void endWith(SourceRecord last) {
        if (aborted()) {
            context.abortTransaction(last);
        } else {
            context.commitTransaction(last);
        }
    }
}
